# Runs at `cmake --install`, when the prefix is known: what goes where beside the program itself.
# Expects QUIRE_SOURCE_DIR, QUIRE_VERSION and the prefix; honours DESTDIR.
#
# Under /usr the places are the distribution's; under any other prefix everything stays within it,
# and the unit names the program and the configuration that are there.
set(prefix "${CMAKE_INSTALL_PREFIX}")
if(prefix STREQUAL "/usr")
  set(config_dir /etc/quire)
  set(unit_dir /lib/systemd/system)
else()
  set(config_dir "${prefix}/etc/quire")
  set(unit_dir "${prefix}/lib/systemd/system")
endif()
set(deploy_dir "${QUIRE_SOURCE_DIR}/deploy")
set(doc_dir "${prefix}/share/doc/quire")

# install_text(FILE DESTINATION): with the version and the places of this installation in it.
function(install_text file destination)
  file(READ "${deploy_dir}/${file}" text)
  string(REPLACE "@VERSION@" "${QUIRE_VERSION}" text "${text}")
  string(REPLACE "/usr/bin/quire" "${prefix}/bin/quire" text "${text}")
  string(REPLACE "/etc/quire" "${config_dir}" text "${text}")
  file(WRITE "$ENV{DESTDIR}${destination}/${file}" "${text}")
  file(CHMOD "$ENV{DESTDIR}${destination}/${file}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ
       WORLD_READ)
  message(STATUS "Installing: $ENV{DESTDIR}${destination}/${file}")
endfunction()

install_text(quire.service "${unit_dir}")
install_text(quire.1 "${prefix}/share/man/man1")
# What an administrator has written stays.
if(NOT EXISTS "$ENV{DESTDIR}${config_dir}/serve.toml")
  install_text(serve.toml "${config_dir}")
endif()
file(INSTALL "${deploy_dir}/copyright" DESTINATION "${doc_dir}")
file(INSTALL "${deploy_dir}/grafana" "${deploy_dir}/prometheus"
     DESTINATION "${doc_dir}/examples")

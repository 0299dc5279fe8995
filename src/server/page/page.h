// The page for people: one HTML document that holds all it needs, styles, scripts and charts.
//
// Its sources lie beside this file; page.cmake joins them with Chart.js (MIT; its notice stays in
// the page) into one string of the program. Served by `quire serve` it is live: it asks the server
// that it came from. Saved with data in it, it shows these and asks nobody.
// Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

namespace quire {

std::string_view PageHtml();

// The page with data in its <script id="quire-data" type="application/json">. json: a JSON text;
// its '<' are escaped, so that no string in it ends the script.
std::string PageWithData(std::string_view json);

// The value of Content-Security-Policy that the page is served with: nothing from elsewhere, no
// script but its own, and requests to its own server alone.
const std::string& PagePolicy();

// Names the page's content; with its quotation marks, as ETag has it.
const std::string& PageTag();

}  // namespace quire

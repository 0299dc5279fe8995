// What is checked of flags of every verb. Declared once all flags are; a refusal names the flag,
// and comes before anything is done.
#pragma once

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace quire {

// Refuses "nan" for every flag below `app` that takes a number: no range of CLI11 does.
void CheckNumbers(CLI::App& app);

// Refuses a value without a character.
void RefuseEmpty(CLI::Option& option);

}  // namespace quire

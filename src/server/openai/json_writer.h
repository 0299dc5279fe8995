// JSON text, written as it comes: no tree in between.
//
//   JsonWriter json(out);
//   json.BeginObject();
//   json.Key("n");
//   json.Int(3);
//   json.EndObject();
//
// Appends to a string; puts the commas. The caller keeps the order of a JSON text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace quire {

// The text between two quotation marks. `text` is UTF-8, as RepairUtf8 makes it; control
// characters, quotation marks and backslashes are escaped, all else stands as it is.
void AppendEscaped(std::string_view text, std::string& out);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void BeginObject() { Open('{'); }
  void EndObject() { Close('}'); }
  void BeginArray() { Open('['); }
  void EndArray() { Close(']'); }
  void Key(std::string_view name);
  void String(std::string_view text);
  void Int(int64_t value);
  // Always with a fraction or an exponent; what is not finite is null.
  void Number(double value);
  // The fewest digits that a float is told by.
  void Float(float value);
  void Bool(bool value) { Raw(value ? "true" : "false"); }
  void Null() { Raw("null"); }
  void Ids(std::span<const int32_t> ids);
  // A value that is JSON text already.
  void Raw(std::string_view json);

 private:
  template <typename Real>
  void WriteReal(Real value);
  void Open(char bracket);
  void Close(char bracket);
  void Separate();

  std::string& out_;
  bool needs_comma_ = false;
};

}  // namespace quire

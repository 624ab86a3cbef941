#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <string>
#include <vector>

#include "base/error.h"

namespace turbolstm {

// What the error says that the action throws; "" when it throws none.
template <std::invocable Action>
std::string ErrorOf(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Expects each part somewhere in the text.
inline void ExpectParts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "lacks '" << part << "': " << text;
  }
}

}  // namespace turbolstm

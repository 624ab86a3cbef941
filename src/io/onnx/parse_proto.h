#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "base/error.h"

namespace turbolstm {

// Bytes as a protobuf message. Throws Error naming `source` if they are more than protobuf can
// parse (2 GiB) or no such message; `what` is the message's name in errors.
template <typename Proto>
Proto ParseProto(std::string_view bytes, std::string_view source, std::string_view what) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  TL_CHECK(bytes.size() <= kMost, "[{}] has {} bytes, at most {} can be read", source, bytes.size(),
           kMost);
  Proto proto;
  TL_CHECK(proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())), "[{}] is not an {}",
           source, what);
  return proto;
}

}  // namespace turbolstm

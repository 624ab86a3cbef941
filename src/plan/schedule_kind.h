#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace turbolstm {

// Known ways to run a recurrent graph. All are points of one space: how long a block of time is,
// how many sequences a tile has, in how many parts the rest is cut, and what waits for what.
enum class ScheduleKind : uint8_t {
  kSequential,     // one operator after the other, each shared out to all streams
  kWholeWindow,    // all steps at once; operators side by side (Hwang & Sung, arXiv 1503.02852)
  kWavefront,      // layers x blocks of time, all sequences in a task
  kCellWavefront,  // layers x steps: a task is a cell (Sharma & Casas, ICS 2020)
  kTurboLstm,      // blocks of time that fit the cache x tiles of sequences
                   // (TurboLSTM, doi 10.11959/j.issn.2096-0271.2024053)
  kAuto,           // the point of the space that is expected to take the least time
};

inline constexpr std::array kScheduleKinds{ScheduleKind::kSequential, ScheduleKind::kWholeWindow,
                                           ScheduleKind::kWavefront,  ScheduleKind::kCellWavefront,
                                           ScheduleKind::kTurboLstm,  ScheduleKind::kAuto};

// "sequential", "whole-window", "wavefront", "cell-wavefront", "turbolstm", "auto".
std::string_view Name(ScheduleKind kind);
// Throws on another name.
ScheduleKind ScheduleNamed(std::string_view name);
// For messages and help.
std::string ScheduleNames();

}  // namespace turbolstm

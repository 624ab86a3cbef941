#pragma once

#include "turbolstm/device.h"

// Each backend's answer to ListBackends().
namespace turbolstm {

BackendInfo DescribeCpu();
BackendInfo DescribeCuda();
BackendInfo DescribeAscend();

// The part of ListLibraries() that a build with CUDA has.
std::vector<LibraryInfo> CudaLibraries();

}  // namespace turbolstm

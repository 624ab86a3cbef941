#pragma once

#include "turbolstm/device.h"

// Each backend's answer to ListBackends().
namespace turbolstm {

BackendInfo DescribeCpu();
BackendInfo DescribeCuda();
BackendInfo DescribeAscend();

}  // namespace turbolstm

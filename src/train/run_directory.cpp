#include "train/run_directory.h"

#include "base/error.h"

namespace turbolstm {

namespace fs = std::filesystem;

fs::path RunDirectory::ToLoad() const {
  std::error_code ignored;
  TL_CHECK(fs::is_directory(path_, ignored),
           "[run] there is no folder {}, wants one that "
           "'turbolstm train' wrote",
           path_.string());
  if (fs::exists(best(), ignored)) return best();
  TL_CHECK(fs::exists(last(), ignored),
           "[run] {} holds neither best.safetensors nor checkpoint.safetensors, wants a folder "
           "that 'turbolstm train' wrote",
           path_.string());
  return last();
}

void RunDirectory::Check(ExistingRun existing) const {
  TL_CHECK(!path_.empty(), "[run] output.directory is empty, wants a folder");
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) return;
  TL_CHECK(fs::is_directory(path_, ignored), "[run] {} is no folder", path_.string());
  if (existing == ExistingRun::kReplace) return;
  for (const fs::path& file : {last(), best(), config()}) {
    TL_CHECK(!fs::exists(file, ignored),
             "[run] {} holds a run already ({}): choose another output.directory, or replace it "
             "with --force",
             path_.string(), file.filename().string());
  }
}

void RunDirectory::Create() const {
  std::error_code error;
  fs::create_directories(path_, error);
  TL_CHECK(!error, "[run] cannot make the folder {}: {}", path_.string(), error.message());
  for (const fs::path& file : {last(), best(), config(), vocabulary(), log()}) {
    fs::remove(file, error);
    TL_CHECK(!error, "[run] cannot remove {}: {}", file.string(), error.message());
  }
}

}  // namespace turbolstm

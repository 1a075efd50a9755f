// Variables of the environment, folders of the user, and the time for names of files.
#pragma once

#include <filesystem>
#include <string>

namespace infer::platform {

/// The value of a variable of the environment; empty if it is not set.
std::string variable(const char* name);

/// The folder that a variable names, such as XDG_DATA_HOME. Empty if there is none; the XDG base
/// directory specification says to ignore relative ones.
std::filesystem::path folder_of(const char* name);
/// $HOME. Empty if it is not set.
std::filesystem::path home_folder();
/// $XDG_CACHE_HOME, else ~/.cache. Empty if neither is known.
std::filesystem::path cache_folder();

/// The time in UTC, `later` seconds from now, as RFC 3339 has it: "2026-11-23T18:15:00.123Z".
std::string utc_text(double later = 0);
/// The same of the time when the file or folder was last changed; if there is none, when the
/// program was.
std::string changed_text(const std::filesystem::path& path);

/// The time in UTC, "20261123-181500". Empty if the system does not know it.
std::string time_stamp();

}  // namespace infer::platform

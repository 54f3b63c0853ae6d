#include "cache/settings.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <charconv>

#include "cache/notice.h"

namespace tpu::cache {
namespace {

std::string Home(const std::function<const char*(const char*)>& variable) {
  if (const char* home = variable("HOME"); home != nullptr && *home == '/') return home;
  std::array<char, 4096> room;
  passwd entry, *found = nullptr;
  if (getpwuid_r(geteuid(), &entry, room.data(), room.size(), &found) == 0 && found != nullptr) return found->pw_dir;
  return "";
}

std::string HostDirectory(const std::function<const char*(const char*)>& variable) {
  if (const char* own = variable("TORCHTPU_CACHE_DIR"); own != nullptr && *own != '\0') return own;
  // By the XDG specification a relative path there is to be ignored.
  if (const char* xdg = variable("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/')
    return std::string(xdg) + "/torchtpu";
  const std::string home = Home(variable);
  return home.empty() ? "" : home + "/.cache/torchtpu";
}

bool Off(const char* value) {
  if (value == nullptr) return false;
  std::string text;
  for (; *value != '\0'; ++value) text += static_cast<char>(std::tolower(static_cast<unsigned char>(*value)));
  return text == "0" || text == "off" || text == "false" || text == "no";
}

// Whether a comma-separated list has an item.
bool Lists(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == item) return true;
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return false;
}

// Leaves `*seconds` as it is where the variable is not set or no number.
void ReadSeconds(const std::function<const char*(const char*)>& variable, const char* name, double* seconds) {
  const char* text = variable(name);
  if (text == nullptr || *text == '\0') return;
  const std::string_view view(text);
  double found = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), found);
  if (error == std::errc() && end == view.data() + view.size() && found >= 0) {
    *seconds = found;
  } else {
    Notice(name, name + std::string(": expected a number, found '") + text + "'. It waits " +
                     std::to_string(static_cast<int>(*seconds)) + " s.");
  }
}

}  // namespace

std::optional<uint64_t> ParseBytes(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (*c != ' ') unit += static_cast<char>(std::toupper(static_cast<unsigned char>(*c)));
  }
  if (unit.empty() || unit == "B") return number;
  const size_t power = std::string_view("KMGT").find(unit[0]);
  const std::string rest = unit.substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "IB")) return std::nullopt;
  const unsigned shift = 10 * static_cast<unsigned>(power + 1);
  if (number > UINT64_MAX >> shift) return std::nullopt;
  return number << shift;
}

Settings Settings::Read(const std::function<const char*(const char*)>& variable) {
  Settings settings;
  ReadSeconds(variable, "TORCHTPU_EXIT_SECONDS", &settings.exit_s);
  if (Off(variable("TORCHTPU_CACHE"))) return settings;
  settings.host_directory = HostDirectory(variable);
  if (const char* url = variable("TORCHTPU_CACHE_URL")) settings.shared_url = url;
  if (const char* trusted = variable("TORCHTPU_CACHE_TRUST")) {
    settings.trust_shared = Lists(trusted, settings.shared_url);
  }
  if (const char* text = variable("TORCHTPU_CACHE_MAX_BYTES"); text != nullptr && *text != '\0') {
    if (const auto bytes = ParseBytes(text)) {
      settings.max_bytes = *bytes;
    } else {
      Notice("max_bytes", std::string("TORCHTPU_CACHE_MAX_BYTES: expected a size such as 4G, found '") + text +
                              "'. It keeps at most 4 GiB.");
    }
  }
  ReadSeconds(variable, "TORCHTPU_CACHE_WAIT_SECONDS", &settings.wait_s);
  return settings;
}

std::optional<std::string> Settings::shared_directory() const {
  static constexpr std::string_view kFile = "file://";
  if (shared_url.starts_with(kFile)) return shared_url.substr(kFile.size());
  if (shared_url.find("://") == std::string::npos) return shared_url;
  return std::nullopt;
}

}  // namespace tpu::cache

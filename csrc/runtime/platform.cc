#include "runtime/platform.h"

#include <unistd.h>

#include <mutex>

#include "pjrt/discovery.h"

namespace tpu::runtime {
namespace {

std::mutex platform_mutex;  // guards config, platform and failure
PlatformConfig config;
Platform* platform = nullptr;  // never destroyed: its threads and buffers must outlive static destruction
Status failure;
std::atomic<Platform*> opened{nullptr};
std::atomic<bool> forked{false};

int64_t PhysicalMemoryBytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE); }

Result<std::unique_ptr<Platform>> Open() {
  TPU_ASSIGN_OR_RETURN(pjrt::PluginChoice choice, pjrt::Discover(config.setting, config.cpu_plugin, config.libtpu));
  if (choice.kind == pjrt::PluginKind::kTpu) pjrt::PrepareTpuEnvironment();
  TPU_ASSIGN_OR_RETURN(std::shared_ptr<pjrt::Plugin> plugin, pjrt::Plugin::Load(choice.path));
  pjrt::Options options;
  if (choice.kind == pjrt::PluginKind::kCpu) options["cpu_device_count"] = int64_t{config.cpu_devices};
  TPU_ASSIGN_OR_RETURN(std::shared_ptr<pjrt::Client> client, pjrt::Client::Create(plugin, options));
  std::string description = client->platform_name() + " (" + choice.reason + ", PJRT " +
                            std::to_string(plugin->api_major()) + "." + std::to_string(plugin->api_minor()) + ", " +
                            std::to_string(client->devices().size()) + " device(s))";
  return std::make_unique<Platform>(std::move(client), std::move(description));
}

}  // namespace

void Platform::Configure(PlatformConfig wanted) {
  std::lock_guard lock(platform_mutex);
  config = std::move(wanted);
}

Result<Platform*> Platform::Get() {
  if (InForkedChild()) return ForkedError();
  if (Platform* p = opened.load(std::memory_order_acquire)) return p;
  std::lock_guard lock(platform_mutex);
  if (platform) return platform;
  if (!failure.ok()) return failure;
  Result<std::unique_ptr<Platform>> result = Open();
  if (!result.ok()) return failure = result.status();
  platform = std::move(result).value().release();
  opened.store(platform, std::memory_order_release);
  return platform;
}

Platform* Platform::Opened() { return opened.load(std::memory_order_acquire); }

bool Platform::Available() {
  if (Platform* p = Opened()) return p->device_count() > 0;
  std::lock_guard lock(platform_mutex);
  return failure.ok() && pjrt::Discover(config.setting, config.cpu_plugin, config.libtpu).ok();
}

int Platform::DeviceCount() {
  if (Platform* p = Opened()) return p->device_count();
  {
    std::lock_guard lock(platform_mutex);
    if (!failure.ok()) return 0;
    auto choice = pjrt::Discover(config.setting, config.cpu_plugin, config.libtpu);
    if (!choice.ok()) return 0;
    if (choice->kind == pjrt::PluginKind::kCpu) return config.cpu_devices;
  }
  auto p = Get();
  return p.ok() ? p.value()->device_count() : 0;
}

void Platform::MarkForked() {
  if (opened.load()) forked.store(true);
}

bool Platform::InForkedChild() { return forked.load(std::memory_order_relaxed); }

Status Platform::ForkedError() {
  return {Code::kInvalidArgument,
          "Cannot re-initialize TPU in forked subprocess. To use TPU with multiprocessing, you must use the 'spawn' "
          "start method"};
}

void Platform::Shutdown() {
  Platform* p = Opened();
  if (!p || InForkedChild()) return;
  for (auto& device : p->devices_) device->Shutdown();
}

Platform::Platform(std::shared_ptr<pjrt::Client> client, std::string description)
    : client_(std::move(client)), description_(std::move(description)), is_cpu_(client_->is_cpu()) {
  int index = 0;
  for (const pjrt::Device* device : client_->devices()) {
    devices_.push_back(std::make_unique<Device>(client_, *device, index++));
    int64_t limit = PhysicalMemoryBytes();
    if (auto stats = device->memory_stats(); !is_cpu_ && stats.ok() && stats->bytes_limit) limit = *stats->bytes_limit;
    devices_.back()->SetLimit(limit);
  }
}

Platform::~Platform() = default;

}  // namespace tpu::runtime

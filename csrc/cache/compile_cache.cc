#include "cache/compile_cache.h"

#include <chrono>
#include <cstdlib>

#include "cache/entry.h"
#include "cache/environment.h"
#include "cache/hook_store.h"
#include "cache/notice.h"

namespace tpu::cache {
namespace {

// A process that writes this part of the allowance looks at the directory's size again.
constexpr uint64_t kPruneAfterPart = 32;

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

CompileCache& CompileCache::Get() {
  // Never destroyed: threads of the pool may outlive static destruction.
  static auto& cache = *new CompileCache(Settings::Read([](const char* name) { return std::getenv(name); }));
  return cache;
}

Key CompileCache::KeyOf(const pjrt::Client& client, std::string_view stablehlo, const pjrt::CompileOptions& options,
                        std::span<const std::pair<int, int>> donations) {
  std::string environment;
  {
    std::lock_guard lock(environments_mutex_);
    std::string& known = environments_[&client];
    if (known.empty()) known = EnvironmentOf(client).fields();
    environment = known;
  }
  KeyBuilder key(std::move(environment));
  key.Add("options", pjrt::Serialize(options));
  // Only a program for several devices is made for their number and order.
  if (!options.portable || options.num_replicas * options.num_partitions > 1) {
    std::string devices;
    for (const pjrt::Device* device : client.devices()) devices += device->debug_string() + ";";
    key.Add("devices", devices);
  }
  std::string pairs;
  for (const auto& [parameter, result] : donations) {
    pairs += std::to_string(parameter) + ">" + std::to_string(result) + " ";
  }
  key.Add("donations", pairs);
  key.Add("program", hlo::WithoutLocations(stablehlo));
  return key.Build();
}

std::shared_ptr<FileStore> CompileCache::OpenHost() const {
  if (settings_.host_directory.empty()) return nullptr;
  auto store = FileStore::Open(settings_.host_directory, Trust::kOwn);
  if (store.ok()) return *store;
  Notice("host", store.status().message() +
                     ". Programs are compiled again in every process; TORCHTPU_CACHE_DIR names " +
                     "another directory, TORCHTPU_CACHE=0 turns this off.");
  return nullptr;
}

std::shared_ptr<Store> CompileCache::OpenShared() const {
  if (settings_.shared_url.empty()) return nullptr;
  const std::string& url = settings_.shared_url;
  Result<std::shared_ptr<Store>> store = Status();
  if (const auto path = settings_.shared_directory()) {
    auto files = FileStore::Open(*path, settings_.trust_shared ? Trust::kAnyone : Trust::kOwnOrRoot);
    if (files.ok()) return *files;
    store = files.status();
  } else if (!settings_.trust_shared && (url.starts_with("http://") || url.starts_with("ftp://"))) {
    store = Status(Code::kInvalidArgument, url + ": expected a connection that nobody on the way can change");
  } else {
    store = OpenHookStore(url);
    if (store.ok()) return *store;
  }
  std::string message = store.status().message() + ". The shared cache (TORCHTPU_CACHE_URL) is not used";
  if (store.status().code() == Code::kInvalidArgument) message += "; TORCHTPU_CACHE_TRUST=" + url + " allows it";
  Notice("shared", message + ".");
  return nullptr;
}

std::shared_ptr<FileStore> CompileCache::host() {
  std::call_once(host_once_, [this] { host_ = OpenHost(); });
  return host_;
}

std::shared_ptr<Store> CompileCache::shared() {
  if (closed_.load()) return nullptr;
  std::call_once(shared_once_, [this] { shared_ = OpenShared(); });
  return shared_;
}

std::unique_ptr<pjrt::LoadedExecutable> CompileCache::FindIn(Store& store, const pjrt::Client& client, const Key& key,
                                                             double Counters::*hits, std::string* bytes) {
  const Stopwatch watch;
  auto read = store.Read(key.id);
  if (!read.ok()) {
    Notice("read", read.status().message() + ". The program is compiled.");
    return nullptr;
  }
  if (!read->has_value()) return nullptr;
  *bytes = std::move(**read);
  auto entry = Decode(*bytes, key);
  Status status = entry.status();
  if (entry.ok()) {
    auto executable = client.Deserialize(entry->executable);
    if (executable.ok()) {
      Count([&](Counters& c) {
        c.*hits += 1;
        c.bytes_read += static_cast<double>(bytes->size());
        c.load_seconds += watch.seconds();
        c.saved_seconds += entry->compile_seconds - watch.seconds();
      });
      return std::move(executable).value();
    }
    status = executable.status();
  }
  store.Remove(key.id);
  Count([](Counters& c) { c.bad_entries += 1; });
  Notice("entry", store.name() + ": " + status.message() + ". The entry is removed and the program compiled.");
  return nullptr;
}

std::unique_ptr<pjrt::LoadedExecutable> CompileCache::FindNear(const pjrt::Client& client, const Key& key) {
  std::string bytes;
  if (const auto store = host()) return FindIn(*store, client, key, &Counters::host_hits, &bytes);
  if (const auto store = shared()) return FindIn(*store, client, key, &Counters::shared_hits, &bytes);
  return nullptr;
}

std::unique_ptr<pjrt::LoadedExecutable> CompileCache::Find(const pjrt::Client& client, const Key& key) {
  std::string bytes;
  const auto near = host();
  if (near) {
    if (auto found = FindIn(*near, client, key, &Counters::host_hits, &bytes)) return found;
  }
  const auto far = shared();
  if (!far) return nullptr;
  auto found = FindIn(*far, client, key, &Counters::shared_hits, &bytes);
  if (found && near) WriteTo(*near, key, bytes);
  return found;
}

FileLock::Outcome CompileCache::TryLock(const Key& key, std::optional<FileLock>* lock) {
  std::shared_ptr<FileStore> store = host();
  if (!store) store = std::dynamic_pointer_cast<FileStore>(shared());
  return store ? FileLock::Try(store->directory(), key.id, lock) : FileLock::Outcome::kUnavailable;
}

Result<std::unique_ptr<pjrt::LoadedExecutable>> CompileCache::Compile(const pjrt::Client& client,
                                                                      std::string_view stablehlo,
                                                                      const pjrt::CompileOptions& options,
                                                                      double* seconds) {
  const Stopwatch watch;
  auto executable = client.Compile(stablehlo, options);
  *seconds = watch.seconds();
  Count([&](Counters& c) {
    c.compilations += 1;
    c.compile_seconds += *seconds;
  });
  return executable;
}

void CompileCache::WriteTo(Store& store, const Key& key, const std::string& bytes) {
  if (Status status = store.Write(key.id, bytes); !status.ok()) {
    Notice(status.code() == Code::kResourceExhausted ? "full" : "write",
           status.message() + ". Programs compiled now are compiled again by the next process.");
    return;
  }
  Count([&](Counters& c) {
    c.stored += 1;
    c.bytes_written += static_cast<double>(bytes.size());
  });
}

std::function<void()> CompileCache::PruneWhenDue(uint64_t written) {
  bool first;
  {
    std::lock_guard lock(counters_mutex_);
    first = !written_since_prune_.has_value();
    written_since_prune_ = written_since_prune_.value_or(0) + written;
    if (!first && *written_since_prune_ < settings_.max_bytes / kPruneAfterPart) return nullptr;
    if (!first) written_since_prune_ = 0;
  }
  const auto store = host();
  if (first && !store->TakePruneTurn()) return nullptr;
  return [store, limit = settings_.max_bytes] { store->Prune(limit - limit / kPruneAfterPart); };
}

std::function<void()> CompileCache::Keep(const Key& key, const std::string& name, const pjrt::Executable& executable,
                                         double compile_seconds) {
  const auto near = host();
  const auto far = shared();
  if (!near && !far) return nullptr;
  auto serialized = executable.Serialize();
  if (!serialized.ok()) {
    Notice("serialize", "the plugin cannot write the program of " + name + " to a file, so each process compiles it (" +
                            serialized.status().message() + ")");
    return nullptr;
  }
  auto bytes = std::make_shared<const std::string>(Encode({key, name, compile_seconds, std::move(serialized).value()}));
  std::function<void()> prune;
  if (near && bytes->size() <= settings_.max_bytes) {
    WriteTo(*near, key, *bytes);
    prune = PruneWhenDue(bytes->size());
  }
  if (!far) return prune;
  if (!near) {  // those who wait for the lock look there
    WriteTo(*far, key, *bytes);
    return nullptr;
  }
  return [this, far, key, bytes, prune] {
    if (!closed_.load()) WriteTo(*far, key, *bytes);
    if (prune) prune();
  };
}

void CompileCache::CountRequest(bool in_memory) {
  Count([&](Counters& c) {
    c.requests += 1;
    if (in_memory) c.memory_hits += 1;
  });
}

Counters CompileCache::counters() const {
  std::lock_guard lock(counters_mutex_);
  return counters_;
}

void CompileCache::Flush() {
  Counters news;
  {
    std::lock_guard lock(counters_mutex_);
    news = counters_ - flushed_;
    flushed_ = counters_;
  }
  if (news.requests == 0 && news.compilations == 0) return;
  if (const auto store = host()) AddToTotals(store->directory(), news);
}

void CompileCache::Close() { closed_.store(true); }

}  // namespace tpu::cache

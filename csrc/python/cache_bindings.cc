// The compile cache seen from Python, and Python seen from it: a shared tier by fsspec.
#include <c10/util/Exception.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>

#include "cache/compile_cache.h"
#include "cache/compile_pool.h"
#include "cache/entry.h"
#include "cache/hook_store.h"
#include "cache/notice.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using cache::CompileCache;

constexpr double kWaitSeconds = 20;

// Calls into Python; what it raises comes back as a status.
template <typename T, typename Call>
Result<T> InPython(const Call& call) {
  py::gil_scoped_acquire lock;
  try {
    return call();
  } catch (py::error_already_set& error) {
    const std::string text = error.what();  // the traceback follows on lines of its own
    return Status(Code::kUnavailable, text.substr(0, text.find('\n')));
  }
}

Result<cache::StoreHooks> OpenInPython(const std::string& url) {
  // Kept for the life of the process: its threads may outlive the interpreter.
  using Object = const py::object*;
  auto opened = InPython<Object>([&]() -> Object {
    return new py::object(py::module_::import("torchtpu._shared_store").attr("open_store")(url));
  });
  if (!opened.ok()) return opened.status();
  const Object store = *opened;
  cache::StoreHooks hooks;
  hooks.read = [store](const std::string& name) {
    return InPython<std::optional<std::string>>([&]() -> std::optional<std::string> {
      const py::object bytes = store->attr("read")(name);
      if (bytes.is_none()) return std::nullopt;
      return bytes.cast<std::string>();
    });
  };
  hooks.write = [store](const std::string& name, const std::string& bytes) {
    TPU_ASSIGN_OR_RETURN(const bool written,
                         InPython<bool>([&] { return store->attr("write")(name, py::bytes(bytes)).cast<bool>(); }));
    return written ? Status() : Status(Code::kUnavailable, "it has failed, and is not asked again");
  };
  hooks.remove = [store](const std::string& name) {
    (void)InPython<bool>([&] {
      store->attr("remove")(name);
      return true;
    });
  };
  return hooks;
}

py::dict ToDict(const cache::Counters& counters) {
  py::dict dict;
  for (const auto& [name, member] : cache::Counters::Fields()) {
    const double value = counters.*member;
    const py::str key(name.data(), name.size());
    if (name.ends_with("_seconds")) {
      dict[key] = value;
    } else {
      dict[key] = static_cast<int64_t>(value);
    }
  }
  return dict;
}

struct Listed {
  std::string key, name, fields;
  uint64_t size_bytes;
  int64_t used_s;
  double compile_seconds;
};

// The entries of the host's directory, the last used first.
std::vector<Listed> List() {
  std::vector<Listed> entries;
  const auto store = CompileCache::Get().host();
  if (!store) return entries;
  auto files = store->List();
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.used_s > b.used_s; });
  for (const auto& file : files) {
    std::string bytes = store->Peek(file.key, cache::kEntryHeaderBytes);
    const auto header = cache::DecodeHeader(bytes);
    if (!header.ok() || header.value().size_bytes() != file.size_bytes) continue;
    const size_t fields = header.value().fields_bytes, name = header.value().name_bytes;
    bytes = store->Peek(file.key, cache::kEntryHeaderBytes + fields + name);
    if (bytes.size() < cache::kEntryHeaderBytes + fields + name) continue;
    entries.push_back({file.key.Hex(), bytes.substr(cache::kEntryHeaderBytes + fields),
                       bytes.substr(cache::kEntryHeaderBytes, fields), file.size_bytes, file.used_s,
                       header.value().compile_seconds});
  }
  return entries;
}

void ShowNotice(const std::string& message) { TORCH_WARN(message); }

// For on_exit. A compilation cannot be stopped, and beside it the plugin's destructors would pull down what it stands on.
void LeaveWithoutDestructors(int status, void* /*unused*/) {
  std::fflush(nullptr);
  _exit(status);
}

// `parent` is the process that imported us: a forked child has none of the pool's threads, and none of its own counts.
void Shutdown(pid_t parent) {
  if (getpid() != parent) return;
  // What is registered last runs first.
  if (!cache::CompilePool::Get().Shutdown(CompileCache::Get().settings().exit_s))
    on_exit(&LeaveWithoutDestructors, nullptr);
  CompileCache::Get().Close();
  CompileCache::Get().Flush();
}

}  // namespace

void BindCache(py::module_& m) {
  cache::SetNoticeHook(&ShowNotice);
  cache::SetStoreOpener(&OpenInPython);
  // Without the interpreter's lock, which a shared tier may want meanwhile.
  using Free = py::call_guard<py::gil_scoped_release>;
  m.def("_cache_stats", [] { return ToDict(CompileCache::Get().counters()); });
  m.def("_cache_totals", [] {
    cache::Counters totals;
    {
      py::gil_scoped_release free;
      CompileCache& cache = CompileCache::Get();
      if (const auto store = cache.host()) {
        cache.Flush();
        totals = cache::ReadTotals(store->directory());
      }
    }
    return ToDict(totals);
  });
  m.def(
      "_cache_directory", [] { return CompileCache::Get().host() ? CompileCache::Get().host()->name() : ""; }, Free());
  m.def("_cache_max_bytes", [] { return CompileCache::Get().settings().max_bytes; });
  m.def("_cache_shared_url", [] { return CompileCache::Get().settings().shared_url; });
  m.def("_cache_entries", [] {
    std::vector<Listed> entries;
    {
      py::gil_scoped_release free;
      entries = List();
    }
    py::list list;
    for (const Listed& e : entries) {
      list.append(py::make_tuple(e.key, e.name, e.size_bytes, e.used_s, e.compile_seconds, e.fields));
    }
    return list;
  });
  m.def(
      "_cache_prune",
      [](uint64_t max_bytes) {
        const auto store = CompileCache::Get().host();
        const auto pruned = store ? store->Prune(max_bytes) : cache::FileStore::Pruned();
        return std::make_tuple(pruned.files, pruned.bytes, pruned.kept_bytes);
      },
      py::arg("max_bytes"), Free());
  m.def("_cache_parse_bytes", &cache::ParseBytes, py::arg("text"));
  m.def(
      "_cache_wait", [] { return cache::CompilePool::Get().AwaitIdle(kWaitSeconds); }, Free());
  py::module_::import("atexit").attr("register")(py::cpp_function([parent = getpid()] { Shutdown(parent); }, Free()));
}

}  // namespace tpu::python

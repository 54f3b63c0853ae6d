#include "aten/generator.h"

#include <ATen/Utils.h>
#include <c10/core/GeneratorImpl.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>

#include "aten/guard.h"
#include "runtime/stream.h"

namespace tpu::aten {
namespace {

constexpr uint64_t kBlockWords = 4;  // a Philox counter step

struct PhiloxState {
  uint64_t seed = c10::default_rng_seed_val;
  uint64_t offset = 0;
};

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device, std::shared_ptr<PhiloxState> state = std::make_shared<PhiloxState>())
      : GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  PhiloxState Take(int64_t words) {
    const PhiloxState taken = *state_;
    state_->offset += (static_cast<uint64_t>(words) + kBlockWords - 1) / kBlockWords * kBlockWords;
    return taken;
  }

  void set_current_seed(uint64_t seed) override { *state_ = {seed, 0}; }
  uint64_t current_seed() const override { return state_->seed; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return state_->seed;
  }
  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset % kBlockWords == 0, "generator offset: expected a multiple of ", kBlockWords, ", found ",
                offset);
    state_->offset = offset;
  }
  uint64_t get_offset() const override { return state_->offset; }

  // 16 bytes on the CPU: seed, then offset. DTensor reads them so.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor bytes =
        at::detail::empty_cpu({sizeof(PhiloxState)}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    std::memcpy(bytes.mutable_data_ptr(), state_.get(), sizeof(PhiloxState));
    return bytes.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& bytes) override {
    at::detail::check_rng_state(bytes);
    TORCH_CHECK(bytes.numel() == sizeof(PhiloxState), "RNG state: expected ", sizeof(PhiloxState), " bytes, found ",
                bytes.numel());
    PhiloxState state;
    std::memcpy(&state, bytes.data(), sizeof(PhiloxState));
    TORCH_CHECK(state.offset % kBlockWords == 0, "RNG state: expected an offset that is a multiple of ", kBlockWords,
                ", found ", state.offset);
    *state_ = state;
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    auto* generator = dynamic_cast<Generator*>(other.get());
    TORCH_CHECK(generator != nullptr, "graphsafe_set_state: expected a tpu generator");
    state_ = generator->state_;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<Generator>(device().index(), state_);
  }

 private:
  Generator* clone_impl() const override {
    return new Generator(device().index(), std::make_shared<PhiloxState>(*state_));
  }

  std::shared_ptr<PhiloxState> state_;
};

struct Defaults {
  std::mutex mutex;
  std::array<at::Generator, runtime::kMaxDevices> generators;
  std::optional<uint64_t> seed;  // of generators still to be made
};

// Never destroyed: references to its generators are handed out.
Defaults& defaults() {
  static auto* d = new Defaults;
  return *d;
}

}  // namespace

const at::Generator& DefaultGenerator(c10::DeviceIndex device) {
  device = CheckedIndex(device);
  Defaults& d = defaults();
  std::lock_guard lock(d.mutex);
  at::Generator& generator = d.generators[device];
  if (!generator.defined()) {
    generator = at::make_generator<Generator>(device);
    if (d.seed) {
      generator.set_current_seed(*d.seed);
    } else {
      generator.seed();
    }
  }
  return generator;
}

at::Generator CreateGenerator(c10::DeviceIndex device) { return at::make_generator<Generator>(CheckedIndex(device)); }

void SeedDefaultGenerators(uint64_t seed) {
  Defaults& d = defaults();
  std::lock_guard lock(d.mutex);
  d.seed = seed;
  for (at::Generator& generator : d.generators) {
    if (!generator.defined()) continue;
    std::lock_guard generator_lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

std::string NextState(const std::optional<at::Generator>& generator, c10::DeviceIndex device, int64_t words) {
  Generator* g = at::get_generator_or_default<Generator>(generator, DefaultGenerator(device));
  std::lock_guard lock(g->mutex_);
  const PhiloxState taken = g->Take(words);
  const uint64_t state[] = {taken.seed, taken.offset};
  return {reinterpret_cast<const char*>(state), sizeof state};
}

}  // namespace tpu::aten

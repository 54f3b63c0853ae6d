#include "distributed/group.h"

#include <algorithm>
#include <utility>

#include "runtime/device.h"

namespace tpu::distributed {
namespace {

constexpr size_t kManyLanes = 64;  // idle ones are ended beyond

std::mutex live_mutex;  // guards live
std::unordered_set<Group*>& live = *new std::unordered_set<Group*>;

// Why a message between two ranks did not come through.
Status Lost(const Status& status, const std::string& who, const std::string& what) {
  const bool late = status.code() == Code::kDeadlineExceeded;
  return {status.code(), late ? "timed out waiting for " + who + " to " + what + " it"
                              : "lost " + who + " (" + status.message() + ")"};
}

}  // namespace

Group::Group(std::unique_ptr<FailureBoard> board, c10::intrusive_ptr<c10d::Backend> transport, int rank, int size,
             std::vector<int> global_ranks)
    : board_(std::move(board)), transport_(std::move(transport), rank, size, std::move(global_ranks)), messages_(size) {
  std::lock_guard lock(live_mutex);
  live.insert(this);
}

Group::~Group() {
  {
    std::lock_guard lock(live_mutex);
    live.erase(this);
  }
  Abort("the group was destroyed");
}

void Group::SetName(std::string name) {
  std::lock_guard lock(mutex_);
  name_ = std::move(name);
}

uint64_t Group::sequence() {
  std::lock_guard lock(mutex_);
  return collectives_;
}

std::string Group::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

Lane& Group::LaneOf(Direction direction, int peer, int tag) {
  if (lanes_.size() > kManyLanes) std::erase_if(lanes_, [](const auto& lane) { return lane.second->idle(); });
  auto& lane = lanes_[{direction, peer, tag}];
  if (!lane) lane = std::make_unique<Lane>();
  return *lane;
}

void Group::Push(Lane& lane, Call call, std::string which, How how) {
  devices_.insert(&call.completion->external()->device());
  lane.Push([this, which = std::move(which), how = std::move(how), call = std::make_shared<Call>(std::move(call))] {
    Carry(*call, which, how);
  });
}

void Group::StartCollective(Call call) {
  std::lock_guard lock(mutex_);
  const uint64_t number = ++collectives_;
  if (!collective_lane_) collective_lane_ = std::make_unique<Lane>();
  Push(*collective_lane_, std::move(call), "sequence " + std::to_string(number),
       [this, number](Call& c, Clock::time_point deadline) { return Collective(c, number, deadline); });
}

void Group::StartSend(Call call, int peer, int tag) {
  std::lock_guard lock(mutex_);
  Push(LaneOf(Direction::kSend, peer, tag), std::move(call), "tag " + std::to_string(tag),
       [this, peer, tag](Call& c, Clock::time_point deadline) { return Send(c, peer, tag, deadline); });
}

void Group::StartReceive(Call call, int peer, int tag) {
  std::lock_guard lock(mutex_);
  Push(LaneOf(Direction::kReceive, peer, tag), std::move(call), "tag " + std::to_string(tag),
       [this, peer, tag](Call& c, Clock::time_point deadline) { return Receive(c, peer, tag, deadline); });
}

void Group::Carry(Call& call, const std::string& which, const How& how) {
  Status status;
  if (std::string reason = failure(); !reason.empty()) {
    status = {Code::kUnavailable, "the group has failed before: " + reason};
  } else {
    status = how(call, Clock::now() + call.timeout);
  }
  if (status.ok()) {
    call.inputs.clear();
    call.completion->Finish(nullptr);
  } else {
    Fail(call, which, status);
  }
}

Status Group::Collective(Call& call, uint64_t number, Clock::time_point deadline) {
  std::vector<HostInput> held;
  std::vector<ConstBytes> in;
  for (runtime::ValuePtr& value : call.inputs) {
    TPU_ASSIGN_OR_RETURN(HostInput input, HostInput::Await(std::move(value)));
    held.push_back(std::move(input));
    in.push_back(held.back().bytes());
  }
  // Its own computation is not what the others are late for.
  if (!held.empty()) deadline = std::max(deadline, Clock::now() + call.timeout);
  TPU_RETURN_IF_ERROR(call.outputs.Open());
  std::vector<Bytes> out;
  for (size_t i = 0; i < call.outputs.count(); ++i) out.push_back(call.outputs.memory(i));
  Exchange exchange(transport_, number, AgreementOf(call.agreement), call.words, deadline);
  TPU_RETURN_IF_ERROR(call.body(exchange, in, out));
  return call.outputs.Fulfil();
}

Status Group::Send(Call& call, int peer, int tag, Clock::time_point deadline) {
  TPU_ASSIGN_OR_RETURN(HostInput input, HostInput::Await(std::move(call.inputs.front())));
  deadline = std::max(deadline, Clock::now() + call.timeout);
  uint64_t number;
  {
    std::lock_guard lock(mutex_);
    number = ++messages_[peer];
  }
  auto frame = std::make_unique<Frame>();
  frame->Write(AgreementOf(call.agreement), number, call.words, input.bytes());
  const auto lost = [&](const Status& status) { return Lost(status, transport_.NameOf(peer), "receive"); };
  Result<Message> head = transport_.Send(peer, TagOf(Channel::kPointToPoint, tag), frame->bytes());
  if (!head.ok()) return lost(head.status());
  if (!IsInline(input.bytes().size())) {
    Result<Message> body = transport_.Send(peer, TagOf(Channel::kPointToPointData, number), input.bytes());
    if (!body.ok()) return lost(body.status());
    if (Status s = head->Await(deadline); !s.ok()) return lost(s);
    if (Status s = body->Await(deadline); !s.ok()) return lost(s);
    return {};
  }
  if (Status s = head->Await(deadline); !s.ok()) return lost(s);
  return {};
}

Status Group::Receive(Call& call, int peer, int tag, Clock::time_point deadline) {
  TPU_RETURN_IF_ERROR(call.outputs.Open());
  const Bytes memory = call.outputs.memory(0);
  auto frame = std::make_unique<Frame>();
  const int wire_tag = TagOf(Channel::kPointToPoint, tag);
  const auto lost = [&](const Status& status) {
    return Lost(status, peer < 0 ? "any rank" : transport_.NameOf(peer), "send");
  };
  Result<Message> head = peer < 0 ? transport_.ReceiveFromAny(wire_tag, frame->bytes())
                                  : transport_.Receive(peer, wire_tag, frame->bytes());
  if (!head.ok()) return lost(head.status());
  if (Status s = head->Await(deadline); !s.ok()) return lost(s);
  if (peer < 0) peer = head->source();
  if (frame->agreement() != AgreementOf(call.agreement) || frame->payload_bytes() != memory.size()) {
    return {Code::kInvalidArgument, "the two ranks do not agree: " + transport_.NameOf(rank()) + " called " +
                                        call.words + ", " + transport_.NameOf(peer) + " called " + frame->words()};
  }
  if (!IsInline(memory.size())) {
    Result<Message> body = transport_.Receive(peer, TagOf(Channel::kPointToPointData, frame->number()), memory);
    if (!body.ok()) return lost(body.status());
    if (Status s = body->Await(deadline); !s.ok()) return lost(s);
  } else if (!memory.empty()) {
    std::copy(frame->payload().begin(), frame->payload().end(), memory.begin());
  }
  TPU_RETURN_IF_ERROR(call.outputs.Fulfil());
  call.completion->SetSource(peer);
  return {};
}

void Group::Fail(Call& call, const std::string& which, const Status& status) {
  std::string text;
  bool first, news;
  {
    std::lock_guard lock(mutex_);
    text = call.words + " (" + which + ", " + transport_.NameOf(rank()) + " of " + std::to_string(size()) +
           (name_.empty() ? "" : ", group " + name_) + "): " + (ended_ ? failure_ : status.message());
    first = failure_.empty();
    if (first) failure_ = text;
    news = !ended_;
  }
  if (first) {
    if (board_ && !transport_.aborted()) {
      // Before the connections close: the others then find the reason.
      text = board_->Post(text, status.code() == Code::kDeadlineExceeded);
      std::lock_guard lock(mutex_);
      failure_ = text;
    }
    transport_.Close();
  }
  auto error = std::make_shared<const Status>(
      status.code() == Code::kInvalidArgument ? Code::kInvalidArgument : Code::kUnavailable, std::move(text));
  call.inputs.clear();
  call.outputs.Fail(error);
  call.completion->Finish(std::move(error), news);
}

void Group::AwaitLanes(Clock::time_point deadline) {
  std::vector<Lane*> lanes;
  {
    std::lock_guard lock(mutex_);
    if (collective_lane_) lanes.push_back(collective_lane_.get());
    for (auto& [key, lane] : lanes_) {
      if (std::get<0>(key) == Direction::kSend) lanes.push_back(lane.get());
    }
  }
  runtime::ReleaseGuard release;
  for (Lane* lane : lanes) lane->AwaitIdle(deadline);
}

void Group::Shutdown(Clock::time_point deadline) {
  AwaitLanes(deadline);
  const bool failed = !failure().empty();
  Abort("the group was destroyed");
  if (!failed) return;
  // What depended on the failure fails as well; it has been told.
  std::unordered_set<runtime::Device*> devices;
  {
    std::lock_guard lock(mutex_);
    devices = devices_;
  }
  for (runtime::Device* device : devices) {
    device->Await(device->last_submitted());
    [[maybe_unused]] Status told = device->TakeError();
  }
}

void Group::Abort(const std::string& reason) {
  std::unique_ptr<Lane> collectives;
  std::map<std::tuple<Direction, int, int>, std::unique_ptr<Lane>> lanes;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    if (failure_.empty()) failure_ = reason;
    collectives = std::move(collective_lane_);
    lanes = std::move(lanes_);
    lanes_.clear();
  }
  transport_.Abort();
  runtime::ReleaseGuard release;  // a job may want Python's lock
  collectives.reset();            // their threads find that there is nothing to wait for
  lanes.clear();
  transport_.Close();
}

void Group::ShutdownAll(Clock::time_point deadline) {
  std::vector<Group*> groups;
  {
    std::lock_guard lock(live_mutex);
    groups.assign(live.begin(), live.end());
  }
  for (Group* group : groups) group->AwaitLanes(deadline);
  for (Group* group : groups) group->transport_.Abort();
  for (Group* group : groups) group->Abort("the program has ended");
}

}  // namespace tpu::distributed

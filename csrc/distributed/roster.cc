#include "distributed/roster.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "distributed/store_text.h"
#include "distributed/transport.h"

namespace tpu::distributed {
namespace {

constexpr auto kFirstPoll = std::chrono::milliseconds(1), kLastPoll = std::chrono::milliseconds(50);
// Rank 0 answers those that wait for it when its time is over; theirs may have begun a little earlier.
constexpr auto kAnswerWait = std::chrono::milliseconds(500);
constexpr char kAccepted = '+', kRefused = '-';

std::string KeyOf(int rank) { return "member/" + std::to_string(rank); }
std::string AnswerKeyOf(const std::string& ticket) { return "answer/" + ticket; }

std::string Ticket() {
  std::random_device random;
  std::ostringstream text;
  for (int i = 0; i < 4; ++i) text << std::hex << random();
  return text.str();
}

// What has to be alike: the first line says how the group is made up, the second with what.
std::string Description(const Member& member) {
  std::string ranks = std::to_string(member.size) + " ranks";
  if (!member.global_ranks.empty()) ranks += " (" + Listed(member.global_ranks) + ")";
  return ranks + "\n" + member.version;
}

struct Entry {
  std::string ticket, description;
};

std::string TextOf(const Entry& entry) { return entry.ticket + "\n" + entry.description; }

Entry EntryOf(const std::string& text) {
  const size_t end = text.find('\n');
  return {text.substr(0, end), end == std::string::npos ? "" : text.substr(end + 1)};
}

std::string Line(const std::string& text, int which) {
  const size_t end = text.find('\n');
  return which == 0 ? text.substr(0, end) : text.substr(end + 1);
}

std::string Difference(const Member& own, int peer, const std::string& theirs) {
  const std::string ours = Description(own);
  const std::string self = NameOf(own.rank, own.global_ranks), other = NameOf(peer, own.global_ranks);
  if (Line(ours, 0) != Line(theirs, 0)) {
    return "the ranks do not make the same group: " + self + " makes it of " + Line(ours, 0) + ", " + other + " of " +
           Line(theirs, 0);
  }
  return "the ranks do not run the same software: " + self + " has " + Line(ours, 1) + ", " + other + " has " +
         Line(theirs, 1);
}

Status Late(const Member& own, std::chrono::milliseconds timeout, const std::vector<int>& missing) {
  return {Code::kDeadlineExceeded, "timed out after " + std::to_string(timeout.count()) + " ms waiting for " +
                                       NamesOf(missing, own.global_ranks) + ", which did not make the group"};
}

// Those of `ranks` that have not signed up.
std::vector<int> Missing(c10d::Store& store, const std::vector<int>& ranks) {
  std::vector<int> missing;
  for (int rank : ranks) {
    if (!store.check({KeyOf(rank)}) || GetText(store, KeyOf(rank)).empty()) missing.push_back(rank);
  }
  return missing;
}

void Answer(c10d::Store& store, const std::vector<Entry>& entries, const std::string& text) {
  for (const Entry& entry : entries) {
    if (!entry.ticket.empty()) SetText(store, AnswerKeyOf(entry.ticket), text);
  }
}

// Rank 0: waits until all have signed up, and answers.
Result<std::string> Collect(c10d::Store& store, const Member& own, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  std::vector<Entry> entries(own.size);
  SetText(store, KeyOf(0), "here");
  std::vector<int> pending;
  for (int rank = 1; rank < own.size; ++rank) pending.push_back(rank);
  auto pause = kFirstPoll;
  const auto end = [&](Status status) {
    for (int rank = 0; rank < own.size; ++rank) {
      if (rank == 0 || !entries[rank].ticket.empty()) SetText(store, KeyOf(rank), "");
    }
    Answer(store, entries, kRefused + status.message());
    return status;
  };
  for (;;) {
    std::erase_if(pending, [&](int rank) {
      if (!store.check({KeyOf(rank)})) return false;
      entries[rank] = EntryOf(GetText(store, KeyOf(rank)));
      return !entries[rank].ticket.empty();
    });
    if (pending.empty()) break;
    if (Clock::now() >= deadline) return end(Late(own, timeout, pending));
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLastPoll);
  }
  for (int rank = 1; rank < own.size; ++rank) {
    if (entries[rank].description != Description(own)) {
      return end({Code::kInvalidArgument, Difference(own, rank, entries[rank].description)});
    }
  }
  const std::string word = Ticket();
  for (int rank = 0; rank < own.size; ++rank) SetText(store, KeyOf(rank), "");
  Answer(store, entries, kAccepted + word);
  return word;
}

Result<std::string> AskFor(c10d::Store& store, const Member& own, std::chrono::milliseconds timeout) {
  const Entry entry{Ticket(), Description(own)};
  SetText(store, KeyOf(own.rank), TextOf(entry));
  const std::string key = AnswerKeyOf(entry.ticket);
  std::string answer;
  try {
    store.wait({key}, timeout + kAnswerWait);
    answer = GetText(store, key);
    store.deleteKey(key);
  } catch (const std::exception&) {
    std::vector<int> others;
    for (int rank = 0; rank < own.size; ++rank) {
      if (rank != own.rank) others.push_back(rank);
    }
    const std::vector<int> missing = Missing(store, others);
    std::this_thread::sleep_for(kAnswerWait);  // the others look for this rank now
    if (GetText(store, KeyOf(own.rank)) == TextOf(entry)) SetText(store, KeyOf(own.rank), "");
    return Late(own, timeout, missing.empty() ? std::vector<int>{0} : missing);
  }
  if (answer.front() == kAccepted) return answer.substr(1);
  return Status(Code::kUnavailable, answer.substr(1));
}

}  // namespace

Result<std::string> SignUp(c10d::Store& store, const Member& member, std::chrono::milliseconds timeout) {
  try {
    return member.rank == 0 ? Collect(store, member, timeout) : AskFor(store, member, timeout);
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, "lost the group's store (" + FirstLine(error) + ")");
  }
}

}  // namespace tpu::distributed

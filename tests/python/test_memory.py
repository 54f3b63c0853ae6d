"""Device and pinned memory."""

import gc

import pytest
import torch
from process import run

MIB = 1 << 20


@pytest.fixture(autouse=True)
def quiet_device():
    torch.tpu.init()
    gc.collect()
    torch.tpu.synchronize()


def test_allocated_follows_live_storages():
    before = torch.tpu.memory_allocated()
    x = torch.empty(MIB, dtype=torch.uint8, device="tpu")
    assert torch.tpu.memory_allocated() == before + MIB
    view = x[10:]
    del x
    assert torch.tpu.memory_allocated() == before + MIB
    del view
    assert torch.tpu.memory_allocated() == before


def test_peak():
    torch.tpu.reset_peak_memory_stats()
    before = torch.tpu.memory_allocated()
    assert torch.tpu.max_memory_allocated() == before
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="tpu")
    del x
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() == before + 4 * MIB


def test_reserved_is_what_is_written():
    torch.tpu.synchronize()
    before = torch.tpu.memory_reserved()
    x = torch.empty(MIB, dtype=torch.uint8, device="tpu")
    assert torch.tpu.memory_reserved() == before
    x.copy_(torch.arange(MIB).to(torch.uint8))
    torch.tpu.synchronize()
    assert torch.tpu.memory_reserved() >= before + MIB
    assert torch.tpu.max_memory_reserved() >= torch.tpu.memory_reserved()


def test_stats():
    torch.tpu.reset_accumulated_memory_stats()
    x = torch.empty(MIB, dtype=torch.uint8, device="tpu")
    del x
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] >= MIB
    assert stats["allocated_bytes.all.freed"] >= MIB
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated()
    assert stats["num_alloc_retries"] == 0
    assert (
        torch.tpu.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["peak"] == (stats["allocated_bytes.all.peak"])
    )
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.tpu.memory_reserved()
    assert torch.accelerator.memory.get_memory_info() == torch.tpu.mem_get_info()
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.empty_cache()
    torch.tpu.empty_cache()


def test_stats_are_empty_before_use():
    code = "import torch; print(torch.tpu.memory_stats(), torch.tpu.memory_allocated(), torch.tpu.is_initialized())"
    assert run(code, TORCHTPU_PJRT="cpu") == "{} 0 False"


def test_mem_get_info():
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total == torch.tpu.get_device_properties().total_memory


def test_summary():
    summary = torch.tpu.memory_summary()
    assert "allocated memory" in summary and "freed" in summary
    assert "freed" not in torch.tpu.memory_summary(abbreviated=True)


def test_fraction_bounds_allocation():
    assert torch.tpu.get_per_process_memory_fraction() == 1
    total = torch.tpu.mem_get_info()[1]
    ooms = torch.tpu.memory_stats()["num_ooms"]
    torch.tpu.set_per_process_memory_fraction(0.001)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
            torch.empty(total // 100, dtype=torch.uint8, device="tpu")
        assert torch.tpu.memory_stats()["num_ooms"] == ooms + 1
        assert torch.ones(3, device="tpu").cpu().tolist() == [1, 1, 1]
    finally:
        torch.tpu.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="from 0 to 1, found 2"):
        torch.tpu.set_per_process_memory_fraction(2)


def test_storage_resize():
    before = torch.tpu.memory_allocated()
    x = torch.zeros(MIB, dtype=torch.uint8, device="tpu")
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.size() == 0 and torch.tpu.memory_allocated() == before
    storage.resize_(2 * MIB)
    assert storage.size() == 2 * MIB and torch.tpu.memory_allocated() == before + 2 * MIB
    x.fill_(7)
    assert x.cpu().unique().tolist() == [7]


def test_addresses_differ():
    x, y = torch.empty(16, device="tpu"), torch.empty(16, device="tpu")
    assert x.data_ptr() != y.data_ptr()
    assert x[4:].data_ptr() == x.data_ptr() + 16


def test_pinned():
    x = torch.arange(1000.0).pin_memory()
    assert x.is_pinned() and x[500:].is_pinned() and not torch.ones(2).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    y = x.to("tpu", non_blocking=True)
    assert torch.equal(y.cpu(), torch.arange(1000.0))
    assert x.data_ptr() % 4096 == 0


def test_pinned_memory_is_reused():
    torch.tpu.empty_host_cache()
    x = torch.empty(1000, pin_memory=True)
    address = x.data_ptr()
    del x
    assert torch.empty(1000, pin_memory=True).data_ptr() == address


def test_pinned_stats():
    torch.tpu.empty_host_cache()
    before = torch.tpu.host_memory_stats()
    x = torch.empty(MIB, dtype=torch.uint8, pin_memory=True)
    during = torch.tpu.host_memory_stats()
    assert during["active_bytes.current"] == before["active_bytes.current"] + MIB
    assert during["num_host_alloc"] == before["num_host_alloc"] + 1
    del x
    assert torch.tpu.host_memory_stats()["allocated_bytes.current"] >= MIB
    torch.tpu.empty_host_cache()
    assert torch.tpu.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]


def test_pinned_memory_of_a_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat(batches).tolist() == list(range(8))

"""Generators and their states."""

import pytest
import torch
from process import run


def draw(**options) -> list[float]:
    return torch.rand(5, device="tpu", **options).cpu().tolist()


def test_same_seed_same_numbers():
    torch.manual_seed(1)
    first = draw()
    second = draw()
    torch.manual_seed(1)
    assert draw() == first != second
    torch.tpu.manual_seed(1)
    assert draw() == first
    torch.tpu.manual_seed(2)
    assert draw() != first
    assert torch.tpu.initial_seed() == 2


def test_state_is_seed_and_offset():
    torch.tpu.manual_seed(7)
    state = torch.tpu.get_rng_state()
    assert state.device.type == "cpu" and state.dtype == torch.uint8 and state.numel() == 16
    assert state.view(torch.int64).tolist() == [7, 0]
    draw()
    seed, offset = torch.tpu.get_rng_state().view(torch.int64).tolist()
    assert seed == 7 and offset > 0 and offset % 4 == 0


def test_restored_state():
    state = torch.tpu.get_rng_state()
    first = draw()
    torch.tpu.set_rng_state(state)
    assert draw() == first
    with torch.random.fork_rng(device_type="tpu"):
        draw()
    following = draw()
    torch.tpu.set_rng_state_all([state])
    draw()
    assert draw() == following
    assert len(torch.tpu.get_rng_state_all()) == torch.tpu.device_count()


@pytest.mark.parametrize(
    "state", [torch.zeros(8, dtype=torch.uint8), torch.tensor([1, 3]).view(torch.uint8)], ids=["short", "misaligned"]
)
def test_bad_state_is_refused(state):
    with pytest.raises(RuntimeError, match="RNG state: expected"):
        torch.tpu.set_rng_state(state)


def test_own_generator():
    generator = torch.Generator("tpu").manual_seed(3)
    assert generator.device == torch.device("tpu:0") and generator.initial_seed() == 3
    torch.tpu.manual_seed(4)
    default = draw()
    torch.tpu.manual_seed(4)
    first = draw(generator=generator)
    assert draw() == default
    assert draw(generator=generator.manual_seed(3)) == first
    copy = generator.clone_state()
    assert draw(generator=copy) == draw(generator=generator)


def test_shared_state():
    generator = torch.Generator("tpu").manual_seed(3)
    shared = generator.graphsafe_get_state()
    draw(generator=shared)
    assert generator.get_offset() == shared.get_offset() > 0
    other = torch.Generator("tpu")
    other.graphsafe_set_state(generator)
    assert other.initial_seed() == 3


def test_generators_of_other_devices_are_refused():
    with pytest.raises(RuntimeError, match=r"Expected a '.*' device type for generator"):
        draw(generator=torch.Generator())


def test_offset():
    generator = torch.Generator("tpu")
    generator.set_offset(8)
    assert generator.get_offset() == 8
    with pytest.raises(RuntimeError, match="multiple of 4, found 6"):
        generator.set_offset(6)


def test_random_seeds():
    assert torch.tpu.seed() != torch.tpu.seed()
    assert torch.tpu.seed_all() == torch.tpu.initial_seed()
    torch.tpu.manual_seed_all(-1)
    assert torch.tpu.initial_seed() == 2**64 - 1


def test_seeds_of_all_devices():
    code = """
        import torch
        torch.tpu.default_generators[0].manual_seed(1)
        torch.manual_seed(5)
        assert [g.initial_seed() for g in torch.tpu.default_generators] == [5, 5, 5]
        assert torch.tpu._get_generator(torch.device("tpu:2")) is torch.tpu.default_generators[2]
        torch.tpu.set_device(1)
        torch.tpu.manual_seed(6)
        assert [g.initial_seed() for g in torch.tpu.default_generators] == [5, 6, 5]
        assert not torch.tpu.is_initialized()
    """
    run(code, TORCHTPU_PJRT="cpu", TORCHTPU_CPU_DEVICES="3")


def test_default_generators_start_from_a_random_seed():
    code = "import torch; print(torch.tpu.initial_seed())"
    assert run(code) != run(code)

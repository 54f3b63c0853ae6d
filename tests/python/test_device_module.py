"""torch.tpu: devices, properties, loading, forks."""

import pytest
import torch
from process import run

import torchtpu


def test_module_is_registered():
    assert torch.tpu.is_available()
    assert torch.tpu.device_count() >= 1
    assert torch.get_device_module("tpu") is torch.tpu
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.utils.backend_registration._privateuse1_backend_name == "tpu"


@pytest.mark.parametrize("first", ["torch", "torchtpu"])
def test_either_import_may_come_first(first):
    second = {"torch": "torchtpu", "torchtpu": "torch"}[first]
    assert run(f"import {first}, {second}, torch; print(torch.device('tpu', 0), torch.tpu.__name__)") == (
        "tpu:0 torchtpu.tpu"
    )


def test_submodules_import_as_torch_tpu():
    import torch.tpu.amp
    import torch.tpu.memory

    assert torch.tpu.memory.memory_allocated is torch.tpu.memory_allocated


def test_import_opens_no_plugin():
    code = """
        import sys, torch
        torch.tpu.is_available(), torch.tpu.device_count(), torch.manual_seed(0), torch.tpu.get_rng_state()
        print(torch.tpu.is_initialized(), "libtpu" in sys.modules, "torch._dynamo" in sys.modules)
        torch.tpu.init()
        print(torch.tpu.is_initialized())
    """
    assert run(code, TORCHTPU_PJRT="cpu").split() == ["False", "False", "False", "True"]


def test_is_available_opens_no_plugin(tmp_path):
    plugin = tmp_path / "plugin.so"
    plugin.write_text("not one")
    code = """
        import torch
        print(torch.tpu.is_available(), torch.accelerator.is_available(), torch.tpu.is_initialized())
        try:
            torch.tpu.init()
        except RuntimeError:
            print(torch.tpu.is_available(), torch.accelerator.is_available())
    """
    assert run(code, TORCHTPU_PJRT=str(plugin)).split() == ["True", "True", "False", "False", "False"]
    assert run("import torch; print(torch.tpu.is_available())", TORCHTPU_PJRT=str(tmp_path / "none.so")) == "False"


def test_current_device():
    code = """
        import torch
        assert torch.tpu.device_count() == 3 and torch.tpu.current_device() == 0
        torch.tpu.set_device(1)
        assert torch.empty(2, device="tpu").device == torch.device("tpu:1")
        with torch.tpu.device("tpu:2"):
            assert torch.tpu.current_device() == 2
            with torch.tpu.device(None), torch.tpu.device(-1):
                assert torch.tpu.current_device() == 2
        with torch.tpu.device_of(torch.empty(2, device="tpu:0")):
            assert torch.tpu.current_device() == 0
        with torch.tpu.device_of(torch.empty(2)):
            assert torch.tpu.current_device() == 1
        assert torch.accelerator.current_device_index() == 1
        assert torch.tpu.can_device_access_peer(0, 1) and not torch.tpu.can_device_access_peer(0, 0)
        import threading
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.tpu.current_device()))
        thread.start(); thread.join()
        assert seen == [0], seen
    """
    run(code, TORCHTPU_PJRT="cpu", TORCHTPU_CPU_DEVICES="3")


def test_backward_runs_on_the_devices_of_its_tensors():
    code = """
        import torch
        x = torch.ones(3, device="tpu:1", requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad.device == torch.device("tpu:1") and x.grad.cpu().tolist() == [2, 2, 2]
    """
    run(code, TORCHTPU_PJRT="cpu", TORCHTPU_CPU_DEVICES="2")


@pytest.mark.parametrize("use", [lambda d: torch.empty(1, device=d), torch.tpu.set_device, torch.tpu.synchronize])
def test_unknown_device_is_named(use):
    with pytest.raises(RuntimeError, match=r"invalid device ordinal: expected a tpu index below .*, found 99"):
        use("tpu:99")


def test_other_devices_are_refused():
    with pytest.raises(ValueError, match="expected a tpu device, found 'cpu'"):
        torch.tpu.set_device("cpu")


def test_properties():
    properties = torch.tpu.get_device_properties(0)
    assert properties.index == 0
    assert properties.name == torch.tpu.get_device_name("tpu:0")
    assert properties.total_memory > 0
    assert properties.platform in torchtpu.platform()
    assert torch.float32 in torch.tpu.get_device_capability()["supported_dtypes"]
    assert torch.complex32 not in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert torch.tpu.is_bf16_supported()


def test_device():
    assert torchtpu.device(0) == torch.device("tpu:0")
    assert torchtpu.device() == torch.device("tpu", torch.tpu.current_device())


def test_generated_methods():
    x = torch.ones(2).tpu()
    assert x.is_tpu and not torch.ones(2).is_tpu
    assert next(torch.nn.Linear(2, 2).tpu().parameters()).is_tpu


def test_bad_environment_is_reported():
    code = """
        try:
            import torchtpu
        except Exception as error:
            print(error, error.__cause__)
    """
    assert "TORCHTPU_CPU_DEVICES: expected a number from 1 to 127, found 'many'" in run(
        code, TORCHTPU_CPU_DEVICES="many", TORCH_DEVICE_BACKEND_AUTOLOAD="0"
    )


def test_fork_after_use_is_refused():
    code = """
        import os, torch
        x = torch.ones(2, device="tpu")
        if (child := os.fork()) == 0:
            try:
                torch.ones(2, device="tpu")
            except RuntimeError as error:
                assert torch.tpu._is_in_bad_fork() and not torch.tpu.is_initialized()
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        assert x.cpu().tolist() == [1, 1]
    """
    assert run(code).startswith(
        "Cannot re-initialize TPU in forked subprocess. To use TPU with multiprocessing, you must use the 'spawn'"
    )


def test_fork_before_use_works():
    code = """
        import os, torch
        assert torch.tpu.is_available()
        if (child := os.fork()) == 0:
            print(torch.ones(2, device="tpu").cpu().tolist(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert run(code, TORCHTPU_PJRT="cpu") == "[1.0, 1.0]"


def test_names_of_torch_tpu():
    code = """
        import torch
        from torch_tpu import api
        from torch_tpu._internal import execution_mode as em
        from torch_tpu._internal import sync
        assert api.tpu_device() == torch.device("tpu:0")
        assert em.eager_mode is em.EagerMode.DEFER_NEVER
        with em.set_eager_mode(em.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING):
            assert em.eager_mode is em.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
        with em.set_eager_mode(em.EagerMode.DEFER_AND_FUSE):
            assert em.eager_mode is em.EagerMode.DEFER_AND_FUSE
        em.eager_mode = em.EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
        import torchtpu
        assert torchtpu.get_mode() == "debug"
        sync.synchronize(torch.ones(2, device="tpu"), wait=True)
        sync.synchronize(wait=True)
    """
    run(code, TORCHTPU_MODE="strict")

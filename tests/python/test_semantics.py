"""Views, aliases, storage and training semantics: the same program gives the same as on the CPU."""

import copy
import io
import itertools
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from torchtpu import _C

quick = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
DEVICES = ("cpu", "tpu")


def both(program: Callable[[str], object]) -> None:
    """The program's results on tpu are those on the CPU."""
    expected, found = program("cpu"), program("tpu")
    torch.testing.assert_close(found, expected, check_device=False, equal_nan=True)


def base(*shape: int) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    return torch.arange(float(count)).reshape(shape)


# --- views and in-place

VIEW_STEPS = [
    "t", "select", "narrow", "step", "unsqueeze", "squeeze", "flatten", "split", "diagonal", "expand", "permute",
    "unfold", "as_strided", "view", "real",
]  # fmt: skip
WRITES = ["add", "mul", "fill", "copy", "index", "mask", "zero", "cumsum", "relu", "index_fill", "out", "swap"]


def step_view(x: torch.Tensor, step: str, n: int) -> torch.Tensor:
    """One view of x, steered by n; x itself where the step does not apply."""
    if step == "as_strided":
        room = x.untyped_storage().nbytes() // x.itemsize
        offset = n % max(room, 1)
        rows = max((room - offset) // 3, 0)
        return x.as_strided((rows, 2), (3, 1), offset) if rows else x
    if step == "unsqueeze":
        return x.unsqueeze(n % (x.dim() + 1))
    if x.dim() == 0:
        return x
    dim = n % x.dim()
    size = x.size(dim)
    if step == "t":
        return x.transpose(dim, -1)
    if step == "permute":
        return x.permute(*reversed(range(x.dim())))
    if step == "squeeze":
        return x.squeeze()
    if step == "flatten":
        return x.flatten() if x.is_contiguous() else x
    if step == "view":
        return x.view(-1, x.size(-1)) if x.is_contiguous() and x.numel() else x
    if size == 0:
        return x
    if step == "select":
        return x.select(dim, n % size) if x.dim() > 1 else x
    if step == "narrow":
        start = n % size
        return x.narrow(dim, start, 1 + n % (size - start))
    if step == "step":
        return x[(slice(None),) * dim + (slice(n % size, None, 1 + n % 3),)]
    if step == "split":
        return x.chunk(2, dim)[-1]
    if step == "diagonal":
        return x.diagonal(n % 3 - 1, 0, 1) if x.dim() > 1 else x
    if step == "unfold":
        return x.unfold(dim, 1 + n % size, 1 + n % size)  # windows that do not overlap
    return x


def write(x: torch.Tensor, kind: str, n: int) -> None:
    value = float(n % 7) - 3
    if kind == "add":
        x.add_(value)
    elif kind == "mul":
        x *= value
    elif kind == "fill":
        x.fill_(value)
    elif kind == "copy":
        x.copy_(torch.arange(float(x.numel())).reshape(x.shape))
    elif kind == "index" and x.dim() and x.size(0):
        x[torch.tensor([n % x.size(0)], device=x.device)] = value
    elif kind == "mask":
        x[x > 2] = value
    elif kind == "zero":
        x.zero_()
    elif kind == "cumsum" and x.dim():
        x.cumsum_(0)
    elif kind == "relu":
        F.relu(x, inplace=True)
    elif kind == "index_fill" and x.dim() and x.size(0):
        x.index_fill_(0, torch.tensor([0], device=x.device), value)
    elif kind == "out":
        torch.mul(x.clone(), value, out=x)
    elif kind == "swap" and x.dim() and x.size(0) > 1:
        x[0], x[1] = x[1].clone(), x[0].clone()


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
steps = st.lists(st.tuples(st.sampled_from(VIEW_STEPS), st.integers(0, 11)), max_size=3)
actions = st.lists(st.tuples(steps, st.sampled_from(WRITES), st.integers(0, 20)), min_size=1, max_size=4)


@quick
@given(shape=shapes, program=actions)
def test_in_place_through_views(shape, program):
    """Random views of views of one tensor are written; every alias made so far is read back after each write."""

    def run(device: str) -> list[torch.Tensor]:
        x = base(*shape).to(device)
        aliases, seen = [x], []
        for views, kind, n in program:
            view = aliases[n % len(aliases)]
            for step, k in views:
                view = step_view(view, step, k)
            write(view, kind, n)
            aliases.append(view)
            seen += [alias.cpu().clone() for alias in aliases]
        return seen

    both(run)


@quick
@given(
    size=st.lists(st.integers(0, 4), min_size=0, max_size=3),
    stride=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    offset=st.integers(0, 9),
)
def test_as_strided(size, stride, offset):
    stride = stride[: len(size)]
    if offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True) if n) >= 64:
        return
    single = all(n < 2 or s for n, s in zip(size, stride, strict=True))  # no element named twice by stride 0
    extents = sorted((s, n) for n, s in zip(size, stride, strict=True) if n > 1)
    reach = 1
    for s, n in extents:
        single = single and s >= reach
        reach = s * (n - 1) + reach

    def run(device: str) -> list[torch.Tensor]:
        x = base(8, 8).to(device)
        view = x.as_strided(size, stride, offset)
        seen = [view.clone(), view + 1, view.sum(), x.t().as_strided(size, stride, offset).clone()]
        if single:
            view.mul_(-1)
            view += torch.ones_like(view)
        copied = torch.as_strided_scatter(x, view * 2, size, stride, offset) if single else x
        return [*seen, view.clone(), x, copied]

    both(run)


OPS: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, y: x.add_(y),
    lambda x, y: x.mul_(2).sub_(1),
    lambda x, y: torch.add(x, y, out=x),
    lambda x, y: x.copy_(y),
    lambda x, y: x.clamp_(-50, 50),
    lambda x, y: x.addcmul_(x, y, value=0.1),
    lambda x, y: x.t_().contiguous() if x.size(0) == x.size(1) else x,
    lambda x, y: x + y,
    lambda x, y: x.clone(),
    lambda x, y: x.contiguous(),
    lambda x, y: x.detach(),
    lambda x, y: x.reshape(x.shape),
    lambda x, y: x.to(torch.float32),
    lambda x, y: x.zero_(),
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: x.fmod_(7),
    lambda x, y: (torch._foreach_add_([x, y], 1), x)[1],
    lambda x, y: torch._foreach_mul([x, y], 2)[0],
    lambda x, y: x.view_as(x).lerp_(y, 0.5),
    lambda x, y: x.masked_fill_(x < 0, 3.0),
]


@quick
@given(
    picks=st.lists(
        st.tuples(st.integers(0, len(OPS) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12
    )
)
def test_donation_and_sharing_never_touch_a_live_tensor(picks):
    """Random programs keep all their old tensors: what is shared, copied on write or donated shows in none of them."""

    def run(device: str) -> list[torch.Tensor]:
        live = [base(3, 3).to(device), -base(3, 3).to(device)]
        kept = []
        for op, i, j in picks:
            x, y = live[i % len(live)], live[j % len(live)]
            kept.append(x.clone())
            try:
                live.append(OPS[op](x, y))
            except RuntimeError:  # partly overlapping memory
                assume(device != "cpu")
                raise
        return [*live, *kept]

    both(run)


def test_old_values_survive_in_place_updates():
    x = torch.zeros(1000, device="tpu")
    olds = []
    for _ in range(50):
        olds.append(x.clone())
        x.add_(1)
    assert [int(old.sum()) for old in olds] == [i * 1000 for i in range(50)]
    assert x.sum().item() == 50_000


def test_copies_do_not_leak_writes():
    makers: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.clone(),
        lambda x: x.t().contiguous().t(),
        lambda x: x.to(torch.float32, copy=True),
        lambda x: x + 0,
        lambda x: x.detach().clone(),
        lambda x: copy.deepcopy(x),
        lambda x: x.repeat(1, 1),
        lambda x: torch.cat([x]),
        lambda x: x.new_tensor(x.cpu().tolist()),
        lambda x: torch.empty_like(x).copy_(x),
        lambda x: x.mul(1),
        lambda x: torch.atleast_2d(x).clone(memory_format=torch.contiguous_format),
        lambda x: x.expand(3, 3).clone(),
        lambda x: torch.stack([x])[0],
        lambda x: x.index_select(0, torch.arange(3, device=x.device)),
        lambda x: x[torch.arange(3, device=x.device)],
        lambda x: x.cpu().to(x.device),
    ]
    for make in makers:
        for write_copy in (True, False):
            x = base(3, 3).to("tpu")
            y = make(x)
            assert y.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
            (y if write_copy else x).mul_(-1).add_(5)
            untouched = x if write_copy else y
            assert torch.equal(untouched.cpu(), base(3, 3))


def test_aliases_do_share_writes():
    makers: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x.contiguous(),
        lambda x: x.to("tpu"),
        lambda x: x.to(torch.float32),
        lambda x: x.detach(),
        lambda x: x.data,
        lambda x: x.view(-1),
        lambda x: x.reshape(9),
        lambda x: x.float(),
        lambda x: x.expand(3, 3),
        lambda x: x[...],
        lambda x: x.t(),
        lambda x: torch.as_strided(x, (9,), (1,)),
        lambda x: x.view(torch.int32).view(torch.float32),
        lambda x: x.new_empty(0).set_(x),
        lambda x: torch.empty(0, device="tpu").set_(x.untyped_storage(), 0, (3, 3)),
    ]
    for make in makers:
        x = base(3, 3).to("tpu")
        y = make(x)
        y.mul_(-1)
        assert torch.equal(x.cpu(), -base(3, 3))
        x.add_(1)
        assert torch.equal(y.cpu().flatten().sort().values, (1 - base(3, 3)).flatten().sort().values)


def test_version_counters():
    x = torch.ones(3, device="tpu", requires_grad=True)
    y = x * 2
    z = y.square()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_autograd_through_views_and_in_place():
    def run(device: str) -> list[torch.Tensor]:
        x = base(4, 4).to(device).requires_grad_()
        y = x * 1
        y[1:3, ::2] *= y[0, 1].clone()
        y.t()[0].mul_(2).sub_(1)
        y.diagonal().copy_(y[0].clone() ** 2)
        y.select(1, 2).masked_fill_(y.select(1, 2) > 5, 0)
        z = torch.cat([y.narrow(0, 1, 2), y[:1]]).unfold(1, 2, 1)
        z.pow(2).sum().backward()
        return [y.detach(), x.grad]

    both(run)


# --- out=, resizing, storage


def test_out():
    def run(device: str) -> list[torch.Tensor]:
        x = base(2, 3).to(device)
        empty = torch.empty(0, device=device)
        torch.add(x, x, out=empty)
        wide = torch.zeros(5, 5, device=device)
        torch.mul(x, 3, out=wide[1:3, 1:4])
        strided = torch.zeros(3, 2, device=device).t()
        torch.exp(x, out=strided)
        values, indices = torch.empty(0, device=device), torch.empty(0, dtype=torch.long, device=device)
        torch.max(x, 1, out=(values, indices))
        double = torch.empty(2, 3, dtype=torch.float64, device=device)
        torch.sub(x, 1, out=double)
        overlap = base(6).to(device)
        torch.add(overlap, 1, out=overlap)
        catted = torch.empty(0, device=device)
        torch.cat([x, x], out=catted)
        grown = torch.empty(2, device=device)[:0]
        torch.arange(5, out=grown)
        return [empty, wide, strided, values, indices, double, overlap, catted, grown]

    both(run)
    assert torch.exp(torch.ones(2, 3, device="tpu"), out=torch.empty(3, 2, device="tpu").t()).stride() == (1, 2)


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_of_the_wrong_size_is_resized():
    def run(device: str) -> list[object]:
        out = torch.ones(4, device=device)
        view = out[:2]
        torch.add(base(2, 3).to(device), 1, out=out)
        return [out, out.stride(), view]

    both(run)


def test_resize_set_and_data():
    def run(device: str) -> list[object]:
        x = base(6).to(device)
        seen: list[object] = []
        view = x.view(2, 3)
        x.resize_(2, 2)
        seen += [x.clone(), view.clone()]
        x.add_(10)
        seen.append(view.clone())
        x.resize_(12)[6:] = 0
        x[4:6] = -1
        seen += [x.clone(), view.clone(), x.untyped_storage().nbytes()]
        y = torch.empty(0, device=device)
        y.set_(x.untyped_storage(), 2, (2, 2), (4, 1))
        y.mul_(3)
        seen += [x.clone(), y.clone(), y.storage_offset()]
        z = torch.zeros(3, device=device)
        z.data = x[:3]
        z.data.add_(100)
        seen += [z.clone(), x.clone()]
        z.set_()
        seen.append(z.clone())
        w = base(3).to(device).requires_grad_()
        w.data.mul_(2)
        w.data = torch.ones(2, 2, device=device)
        (w * 3).sum().backward()
        seen += [w.detach(), w.grad]
        storage = x.untyped_storage()
        storage.resize_(0)
        storage.resize_(48)
        x.fill_(4)
        seen.append(x.clone())
        v = x[:4].view(torch.int32)
        seen.append(v.clone())
        v.zero_()
        seen.append(x.clone())
        u = base(2, 3).to(device)
        u.t_()
        u.unsqueeze_(0)
        u.swapaxes_(0, 1).squeeze_()
        seen += [u.clone(), u.stride()]
        return seen

    both(run)


def test_data_of_a_parameter_may_move_devices():
    p = torch.nn.Parameter(torch.ones(3))
    p.data = p.data.to("tpu")
    assert p.is_tpu
    (p * 2).sum().backward()
    assert p.grad.is_tpu and p.grad.cpu().tolist() == [2, 2, 2]


def test_channels_last():
    def run(device: str) -> list[object]:
        x = base(2, 3, 4, 5).to(device).to(memory_format=torch.channels_last)
        w = (base(6, 3, 3, 3) / 100).to(device).to(memory_format=torch.channels_last).requires_grad_()
        y = F.conv2d(x, w, padding=1)
        z = F.relu(y) + x.sum()
        z.sum().backward()
        pointwise = x * 2 + x.flip(0)
        x[:, 1].add_(1)
        out = torch.empty_like(x)
        torch.sin(x, out=out)
        return [
            z.detach(), w.grad, pointwise, x, x.contiguous(), out,
            pointwise.is_contiguous(memory_format=torch.channels_last), pointwise.stride(), x.clone().stride(),
            out.stride(), torch.zeros_like(x).stride(), x.to(torch.float64).stride(), x.cpu().stride(),
            x.permute(0, 2, 3, 1).is_contiguous(), F.max_pool2d(x, 2), F.interpolate(x, scale_factor=2),
        ]  # fmt: skip

    both(run)


def test_conjugate_and_negative_views():
    def run(device: str) -> list[torch.Tensor]:
        x = torch.complex(base(2, 2), base(2, 2) + 1).to(device)
        y = x.conj()
        z = y.imag  # a negative view
        seen = [y + 1, z * 2, y @ x, y.resolve_conj(), z.clone(), torch.view_as_real(x)]
        x.real.add_(1)
        y.mul_(1j)
        z.add_(2)
        return [*(s.cpu() for s in seen), x.cpu(), y.cpu().resolve_conj(), z.cpu().resolve_neg()]

    both(run)


# --- modules and optimizers


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.embedding(tokens)))


def tied() -> Tied:
    torch.manual_seed(3)
    return Tied()


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, device: str, count: int = 3) -> torch.Tensor:
    losses = []
    for i in range(count):
        tokens = (torch.arange(5) + i).remainder(7).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens), tokens.flip(0))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def test_tied_weights_and_an_optimizer_made_before_the_move():
    def run(device: str) -> list[torch.Tensor]:
        model = tied()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        model.to(device)
        assert model.head.weight is model.embedding.weight
        assert len(list(model.parameters())) == 3
        assert {id(p) for p in model.parameters()} == {id(p) for p in optimizer.param_groups[0]["params"]}
        losses = train(model, optimizer, device)
        assert model.head.weight is model.embedding.weight
        return [losses, *(v.detach() for v in model.state_dict().values())]

    both(run)


def test_state_moves_between_devices_mid_training():
    reference = tied()
    expected = train(reference, torch.optim.Adam(reference.parameters(), lr=0.05), "cpu", 4)
    model = tied().to("tpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    train(model, optimizer, "tpu", 2)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, map_location="cpu", weights_only=True)
    assert all(v.device.type == "cpu" for v in saved["model"].values())
    back = tied()
    back.load_state_dict(saved["model"])
    other = torch.optim.Adam(back.parameters(), lr=0.05)
    other.load_state_dict(saved["optimizer"])
    torch.testing.assert_close(train(back, other, "cpu", 4)[:1], train(model, optimizer, "tpu", 4)[:1].cpu())
    assert expected.shape == (4,)


def test_deepcopy():
    model = tied().to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train(model, optimizer, "tpu", 1)
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.embedding.weight and twin.head.weight is not model.head.weight
    before = twin.head.weight.detach().cpu()
    train(model, optimizer, "tpu", 1)
    assert torch.equal(twin.head.weight.cpu(), before) and not torch.equal(model.head.weight.cpu(), before)
    x = base(4, 4).to("tpu")
    pair = copy.deepcopy([x, x[1]])
    pair[1].zero_()
    assert pair[0][1].sum().item() == 0 and x[1].sum().item() == 22  # views stay views, of the copy


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e5m2]
)
def test_saving(dtype, tmp_path):
    x = base(3, 4).to(dtype).to("tpu")
    data = {
        "x": x,
        "view": x[1:, ::2],
        "t": x.t(),
        "empty": x[:0],
        "scalar": x[0, 0],
        "p": torch.nn.Parameter(x, False),
    }
    path = tmp_path / "data.pt"
    torch.save(data, path)
    for where in (None, "cpu", "tpu", "tpu:0", torch.device("tpu"), lambda storage, location: storage):
        loaded = torch.load(path, map_location=where, weights_only=True)
        kind = "tpu" if where is None else "cpu" if where == "cpu" or callable(where) else "tpu"
        for name, value in loaded.items():
            assert value.device.type == kind and value.dtype == dtype
            assert torch.equal(value.cpu().to(torch.complex64), data[name].cpu().to(torch.complex64))
            assert value.stride() == data[name].stride()
        loaded["x"].zero_()
        assert loaded["view"].cpu().to(torch.complex64).abs().sum() == 0  # shared storage stays shared
    torch.save(base(2, 2), path)
    loaded = torch.load(path, map_location="tpu")
    assert loaded.is_tpu and torch.equal(loaded.cpu(), base(2, 2))


def test_pickle():
    x = base(3, 4).to("tpu")
    assert torch.equal(pickle.loads(pickle.dumps(x)).cpu(), x.cpu())


def test_loading_with_memory_mapping(tmp_path):
    torch.save({"x": base(100)}, tmp_path / "x.pt")
    mapped = torch.load(tmp_path / "x.pt", mmap=True)["x"]
    assert torch.equal(mapped.to("tpu").cpu(), base(100))
    model = torch.nn.Linear(3, 3, device="meta").to_empty(device="tpu")
    model.load_state_dict(torch.nn.Linear(3, 3).state_dict(), assign=False)
    assert model.weight.is_tpu and torch.isfinite(model.weight).all()


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    path = str(tmp_path / "model.safetensors")
    state = {
        "a": base(3, 4).to("tpu"),
        "b": base(5).to(torch.bfloat16).to("tpu"),
        "c": torch.tensor([True], device="tpu"),
    }
    safetensors.save_file(state, path)
    for device in (*DEVICES[:1], 0):  # it knows no name of the device's; a number is torch.device(0)
        loaded = safetensors.load_file(path, device=device)
        for name, value in loaded.items():
            assert value.device.type == ("cpu" if device == "cpu" else "tpu") and torch.equal(
                value.cpu(), state[name].cpu()
            )
    model = torch.nn.Linear(4, 3).to("tpu")
    safetensors.save_model(model, path)
    other = torch.nn.Linear(4, 3).to("tpu")
    safetensors.load_model(other, path)
    assert torch.equal(other.weight.cpu(), model.weight.cpu())


class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.full((3,), float(i * i)), i


def test_data_loader():
    torch.ones(1, device="tpu").cpu()  # the workers fork after the device's first use
    loader = torch.utils.data.DataLoader(
        Squares(), batch_size=6, num_workers=2, pin_memory=True, persistent_workers=True
    )
    for _ in range(2):
        seen = []
        for x, y in loader:
            assert x.is_pinned()
            a, b = x.to("tpu", non_blocking=True), y.to("tpu", non_blocking=True)
            assert torch.equal(a[:, 0].cpu().long(), (b * b).cpu())
            seen += b.tolist()
        assert seen == list(range(20))


def test_hooks():
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).to(device)
        seen: list[torch.Tensor] = []
        model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        model[1].register_forward_hook(lambda module, args, output: output + 1)
        model[2].register_full_backward_hook(lambda module, gi, go: seen.append(go[0].clone()))
        model[0].weight.register_hook(lambda grad: grad * 3)
        model[0].bias.register_post_accumulate_grad_hook(lambda p: (p.grad.zero_(), None)[1])
        x = base(2, 3).to(device).requires_grad_()
        y = model(x)
        y.register_hook(lambda grad: seen.append(grad))
        y.sum().backward()
        with torch.autograd.graph.save_on_cpu(), torch.no_grad():
            model(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu(), lambda t: t.to(device)):
            (x.exp() * x).sum().backward()
        return [y.detach(), x.grad, model[0].weight.grad, model[0].bias.grad, *seen]

    both(run)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant):
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        block = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU(), torch.nn.Linear(3, 3)).to(device)
        x = base(2, 3).to(device).requires_grad_()
        y = checkpoint(block, x, use_reentrant=reentrant)
        y.square().sum().backward()
        return [y.detach(), x.grad, *(p.grad for p in block.parameters())]

    both(run)


def test_checkpoint_repeats_its_dropout():
    torch.manual_seed(1)
    w = torch.ones(1000, device="tpu", requires_grad=True)
    y = checkpoint(lambda w: F.dropout(w * 2, 0.5), w, use_reentrant=False)
    torch.rand(10, device="tpu")
    y.sum().backward()
    assert torch.equal(w.grad, y.detach())  # the same mask in both passes: 4 or 0 each


def test_grad_scaler_and_autocast():
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("tpu", init_scale=8.0, growth_interval=1)
    x = base(2, 4).to("tpu")
    with torch.autocast("tpu", dtype=torch.float16):
        y = model(x)
        assert y.dtype == torch.float16 and (y.softmax(0)).dtype == torch.float32
        loss = y.float().square().mean()
    before = model.weight.detach().clone()
    scaler.scale(loss).backward()
    scaled = model.weight.grad.clone()
    scaler.unscale_(optimizer)
    torch.testing.assert_close(model.weight.grad * 8, scaled)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 16 and not torch.equal(model.weight, before)
    before = model.weight.detach().clone()
    optimizer.zero_grad()
    scaler.scale(model(x * float("inf")).sum()).backward()
    scaler.step(optimizer)  # skipped
    scaler.update()
    assert scaler.get_scale() == 8 and torch.equal(model.weight, before)
    scaler.load_state_dict(scaler.state_dict())
    with torch.autocast("tpu"):
        assert (x @ x.t()).dtype == torch.bfloat16
        with torch.autocast("tpu", enabled=False):
            assert (x @ x.t()).dtype == torch.float32


# --- function transforms


def test_function_transforms():
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

    def run(device: str) -> list[object]:
        x, y = (base(3, 4) / 5).to(device), (base(3, 4) / 7 + 1).to(device)
        w = (base(4, 4) / 9).to(device)

        def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return (torch.tanh(a @ w) * b.sin()).sum()

        model = torch.nn.Linear(4, 2).to(device)
        params = {"weight": (base(2, 4) / 3).to(device), "bias": torch.ones(2, device=device)}

        def loss(p: dict[str, torch.Tensor], a: torch.Tensor) -> torch.Tensor:
            return functional_call(model, p, (a,)).square().sum()

        value, tangent = jvp(lambda a: f(a, y), (x,), (torch.ones_like(x),))
        output, pull = vjp(f, x, y)
        return [
            vmap(f)(x, y),
            vmap(f, in_dims=(0, None))(x, y[0]),
            vmap(lambda a: a.softmax(0) @ w)(x),
            vmap(lambda a, i: a.index_select(0, i))(x, torch.tensor([[0, 1], [2, 3], [1, 1]], device=device)),
            vmap(torch.dot)(x, y),
            grad(f)(x, y),
            vmap(grad(f))(x, y),
            grad(lambda a: grad(lambda b: b.pow(3).sum())(a).sum())(x),
            value, tangent, output, pull(torch.ones_like(output)),
            jacrev(lambda a: (a @ w).tanh())(x[0]), jacfwd(lambda a: (a @ w).tanh())(x[0]),
            hessian(lambda a: (a @ w).tanh().sum())(x[0]),
            vmap(grad(loss), in_dims=(None, 0))(params, x),
        ]  # fmt: skip

    both(run)


def test_vmap_randomness():
    from torch.func import vmap

    x = torch.zeros(3, 5, device="tpu")
    different = vmap(lambda a: a + torch.rand(5, device="tpu"), randomness="different")(x).cpu()
    same = vmap(lambda a: a + torch.rand(5, device="tpu"), randomness="same")(x).cpu()
    assert not torch.equal(different[0], different[1]) and torch.equal(same[0], same[1])
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda a: a + torch.rand(5, device="tpu"))(x)


def test_double_backward():
    def run(device: str) -> list[torch.Tensor]:
        x = (base(2, 3, 6, 6) / 50).to(device).requires_grad_()
        w = (base(4, 3, 3, 3) / 60).to(device).requires_grad_()
        y = F.softplus(F.conv2d(x, w)).mean(dim=(2, 3)) @ (base(4, 2) / 5).to(device)
        (gx,) = torch.autograd.grad(F.layer_norm(y, (2,)).pow(2).sum() + y.sum(), x, create_graph=True)
        penalty = (gx.flatten(1).norm(dim=1) - 1).square().mean()
        penalty.backward()
        z = torch.autograd.functional.hvp(
            lambda v: (v.sigmoid() * v).sum(), x.detach()[0, 0], torch.ones(6, 6, device=device)
        )
        return [gx.detach(), w.grad, x.grad, z[1]]

    both(run)


def test_gradients_accumulate_in_place():
    def run(device: str) -> list[torch.Tensor]:
        w = base(3).to(device).requires_grad_()
        (w * 2).sum().backward()
        first = w.grad
        kept = first.clone()
        (w * w).sum().backward()
        assert w.grad is first
        grads = torch.autograd.grad((w.sin() * w).sum(), w)
        return [first, kept, *grads]

    both(run)


def test_accumulated_gradient_does_not_alias_another():
    """y + y sends one gradient to two inputs: neither .grad may be the other."""
    a, b = (torch.ones(3, device="tpu", requires_grad=True) for _ in range(2))
    (a + b).sum().backward()
    a.grad.add_(10)
    assert b.grad.cpu().tolist() == [1, 1, 1]


# --- random state


def test_dropout_repeats_with_its_seed():
    x = torch.ones(64, 64, device="tpu")
    torch.manual_seed(5)
    first, second = F.dropout(x), F.dropout(x)
    torch.manual_seed(5)
    assert torch.equal(F.dropout(x), first) and torch.equal(F.dropout(x), second)
    assert not torch.equal(first, second)
    assert 0.4 < (first == 0).float().mean().item() < 0.6
    torch.tpu.manual_seed(6)
    assert not torch.equal(F.dropout(x), first)


def test_generator_state_is_saved_and_restored():
    for generator in (None, torch.Generator("tpu").manual_seed(9)):
        state = torch.tpu.get_rng_state() if generator is None else generator.get_state()

        def draw(generator=generator) -> list[torch.Tensor]:
            return [
                torch.rand(5, device="tpu", generator=generator),
                torch.randn(3, 3, device="tpu", generator=generator),
                torch.randint(0, 100, (7,), device="tpu", generator=generator),
                torch.randperm(10, device="tpu", generator=generator),
                torch.empty(4, device="tpu").exponential_(generator=generator),
                torch.bernoulli(torch.full((9,), 0.5, device="tpu"), generator=generator),
                torch.multinomial(torch.ones(8, device="tpu"), 4, generator=generator),
            ]

        first = draw()
        if generator is None:
            torch.tpu.set_rng_state(state)
        else:
            generator.set_state(state)
        again = draw()
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        inside = torch.rand(3, device="tpu")
    assert torch.equal(torch.rand(3, device="tpu"), inside)


# --- order of work


def test_streams_and_events_keep_the_order_of_work():
    side = torch.tpu.Stream()
    x = torch.zeros(1000, device="tpu")
    for i in range(20):
        with torch.tpu.stream(side if i % 2 else torch.tpu.default_stream()):
            x.add_(1)
            x.mul_(1)
            event = torch.tpu.Event()
            event.record()
        (torch.tpu.default_stream() if i % 2 else side).wait_event(event)
    side.synchronize()
    torch.tpu.synchronize()
    assert event.query() and x.sum().item() == 20_000
    host = torch.empty(1000, pin_memory=True)
    host.copy_(x, non_blocking=True)
    torch.tpu.current_stream().synchronize()
    assert host.sum().item() == 20_000
    x.record_stream(side)


def test_pinned_source_may_change_after_a_synchronisation():
    host = torch.zeros(100_000).pin_memory()
    copies = []
    for i in range(10):
        host.fill_(i)
        copies.append(host.to("tpu", non_blocking=True))
        torch.tpu.synchronize()
    assert [c[-1].item() for c in copies] == list(range(10))
    plain = torch.zeros(100_000)
    copies = []
    for i in range(10):
        plain.fill_(i)
        copies.append(plain.to("tpu", non_blocking=True))  # pageable: has been read when the call returns
    assert [c[-1].item() for c in copies] == list(range(10))
    small = torch.zeros(4)
    y = small.to("tpu")
    small.fill_(9)
    assert y.cpu().tolist() == [0, 0, 0, 0]
    array = torch.zeros(4).numpy()
    z = torch.from_numpy(array).to("tpu")
    array[:] = 3
    assert z.cpu().tolist() == [0, 0, 0, 0]


def test_host_copy_is_independent():
    for n in (4, 100_000):
        x = torch.zeros(n, device="tpu")
        h = x.cpu()
        x.add_(1)
        torch.tpu.synchronize()
        assert h.sum().item() == 0
        h.fill_(7)
        assert x.sum().item() == n


def test_every_pair_of_dtypes_promotes_alike():
    dtypes = [
        torch.bool,
        torch.uint8,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.complex64,
    ]
    for a, b in itertools.product(dtypes, dtypes):
        if torch.complex64 in (a, b) and torch.float16 in (a, b):
            continue  # complex32, which the device has not
        for x, y in (
            (torch.ones(2, dtype=a), torch.ones(2, dtype=b)),
            (torch.ones(2, dtype=a), torch.ones((), dtype=b)),
        ):
            assert (x.to("tpu") * y.to("tpu")).dtype == (x * y).dtype, (a, b)


def test_several_writes_of_one_call_may_share_a_storage():
    """Parameters that are views of one flat buffer, as distributed wrappers make them; the same tensor twice."""

    def run(device: str) -> list[torch.Tensor]:
        flat, state = base(12).to(device), torch.zeros(12, device=device)
        parts, states = list(flat.split([3, 4, 5])), list(state.split([3, 4, 5]))
        torch._foreach_add_(parts, 1)
        torch._foreach_mul_(states, 0.9)
        torch._foreach_addcmul_(states, parts, parts, value=0.1)
        torch._foreach_addcdiv_(parts, parts, [s + 1 for s in states], value=-0.5)
        twice = base(3).to(device)
        torch._foreach_add_([twice, twice], 1)
        swapped = base(2, 2).to(device)
        torch._foreach_add_([swapped[0], swapped[1]], [swapped[1], swapped[0]])
        copied = base(3, 2).to(device)
        torch._foreach_copy_([copied[0], copied[1]], [copied[1], copied[2]])
        torch._foreach_copy_([copied[2], copied[1]], [copied[0] + 5, copied[2]])
        out = torch.zeros(2, 3, device=device)
        torch.aminmax(base(4, 3).to(device), dim=0, out=(out[0], out[1]))
        return [flat, state, twice, swapped, copied, out]

    both(run)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_lists_of_numbers(dtype):
    """Equal ones are one number of the program, others an array; whichever, they are data and no part of it."""
    lists = [[2, 2, 2], [3.0, 3.0, 3.0], [0.5, 0.5, 0.5], [2.0, 3.0, 4.0], [5.0, 5.0, 4.0], [1, 1, 2.5], [1, 2, 2.5]]
    xs = [base(2, 3).to(dtype) + 1, base(4).to(dtype) + 1, base(3).to(dtype) + 2]
    tpu = [x.to("tpu") for x in xs]
    for numbers in [*lists, [-0.0, 0.0, -0.0], [0.0, 0.0, 0.0], [-0.0, -0.0, -0.0], [2j, 2j, 2j], [2j, 3j, 2j]]:
        for ours, theirs in zip(torch._foreach_mul(tpu, numbers), torch._foreach_mul(xs, numbers), strict=True):
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours.cpu(), theirs)
            assert torch.equal(1 / ours.cpu().real, 1 / theirs.real)  # the sign of zero
        if numbers is lists[-1]:
            made = _C._compile_count()
            for again in lists:
                torch._foreach_mul(tpu, [1.5 * n if isinstance(n, float) else n + 3 for n in again])
            torch.tpu.synchronize()
            assert _C._compile_count() == made


def test_optimizers_on_views_of_a_flat_buffer():
    def run(device: str) -> list[torch.Tensor]:
        seen = []
        for make in (
            lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
            lambda ps: torch.optim.AdamW(ps, lr=0.1, foreach=True),
            lambda ps: torch.optim.AdamW(ps, lr=0.1, fused=True),
        ):
            flat = (base(10) / 10).to(device)
            params = [torch.nn.Parameter(p) for p in flat.split([2, 3, 5])]
            optimizer = make(params)
            for _ in range(3):
                optimizer.zero_grad()
                sum((p * p).sum() for p in params).backward()
                optimizer.step()
            seen.append(flat)
        return seen

    both(run)

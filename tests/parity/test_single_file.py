"""Single files in BFL's and ComfyUI's layout give the same networks as the diffusers folder."""

import gc
import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipegraph.models.checkpoints.load import load_checkpoint, load_model, load_text_encoders, load_vae
from pipegraph.models.checkpoints.parts import parts
from pipegraph.models.checkpoints.source import checkpoint, recommend
from pipegraph.models.families.autoencoder_kl import AUTOENCODER_KL
from pipegraph.models.families.flux import NAMES, network_config
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.headers import read_header
from pipegraph.models.loading.networks import build
from pipegraph.models.loading.pieces import Piece
from pipegraph.models.loading.place import Place
from pipegraph.models.loading.quantized import pieces_of

_spec = importlib.util.spec_from_file_location("layouts", Path(__file__).parents[1] / "models" / "layouts.py")
assert _spec and _spec.loader
_layouts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_layouts)
to_bfl = _layouts.to_bfl
CPU = Place(torch.device("cpu"), torch.float32)
Tensors = dict[str, Tensor]


def to_ldm(net: Tensors) -> Tensors:
    """diffusers' VAE weights in the original layout."""
    out: Tensors = {}
    for name, tensor in net.items():
        new = name.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
        new = re.sub(r"down_blocks\.(\d)\.resnets\.(\d)", r"down.\1.block.\2", new)
        new = re.sub(r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample", new)
        new = re.sub(r"up_blocks\.(\d)\.resnets\.(\d)", lambda m: f"up.{3 - int(m[1])}.block.{m[2]}", new)
        new = re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda m: f"up.{3 - int(m[1])}.upsample", new)
        new = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", new)
        if ".attentions.0." in new:
            new = new.replace("mid_block.attentions.0.", "mid.attn_1.").replace("group_norm", "norm")
            new = new.replace("to_out.0", "proj_out").replace("to_", "")
            tensor = tensor[:, :, None, None] if new.endswith("weight") and "norm" not in new else tensor
        out[new] = tensor.contiguous()
    return out


@pytest.fixture(scope="module")
def weights(folders: dict[str, Path]) -> dict[str, Tensors]:
    """By component: the networks of the dev folder in the original layouts."""
    dev = folders["dev"]
    clip = load_file(dev / "text_encoder/model.safetensors")
    return {
        "transformer": to_bfl(load_file(dev / "transformer/diffusion_pytorch_model.safetensors")),
        "vae": to_ldm(load_file(dev / "vae/diffusion_pytorch_model.safetensors")),
        "clip": {f"text_model.{k.removeprefix('text_model.')}": v for k, v in clip.items()},
        "t5": load_file(dev / "text_encoder_2/model.safetensors"),
    }


@pytest.fixture
def models(tmp_path: Path, folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ComfyUI-like models folder with the tokenizers in place."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for sub in ("checkpoints", "diffusion_models", "text_encoders", "vae", "tokenizers"):
        (tmp_path / sub).mkdir()
    shutil.copytree(folders["dev"] / "tokenizer", tmp_path / "tokenizers/clip_l")
    shutil.copytree(folders["dev"] / "tokenizer_2", tmp_path / "tokenizers/t5xxl")
    return tmp_path


def configs(folder: Path) -> dict[str, str]:
    """What shapes do not tell of such small networks: how rotary positions split, group size, special tokens."""
    found = {
        n: json.loads((folder / n / "config.json").read_text())
        for n in ("transformer", "vae", "text_encoder", "text_encoder_2")
    }
    return {"config": json.dumps(found)}


def same_weights(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    one, two = a.state_dict(), b.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def test_all_in_one(load: Any, weights: dict[str, Tensors], models: Path, folders: dict[str, Path]) -> None:
    prefixes = {
        "transformer": "model.diffusion_model.",
        "vae": "vae.",
        "clip": "text_encoders.clip_l.transformer.",
        "t5": "text_encoders.t5xxl.transformer.",
    }
    merged = {prefixes[part] + k: v for part, found in weights.items() for k, v in found.items()}
    merged["text_encoders.clip_l.logit_scale"] = torch.ones(1)
    save_file(merged, models / "checkpoints/all.safetensors", configs(folders["dev"]))
    folder = load("dev")
    model, clip, vae = load_checkpoint(checkpoint("all.safetensors"), CPU)
    assert same_weights(model.loaded.network, folder.model.loaded.network) and same_weights(
        vae.loaded.network, folder.vae.loaded.network
    )
    assert all(
        same_weights(clip.encoders[n].loaded.network, folder.clip.encoders[n].loaded.network) for n in clip.encoders
    )
    assert model.latent == folder.model.latent and vae.latent == folder.vae.latent
    assert recommend("all.safetensors")["steps"] == 20
    ours = clip.encode(clip.tokenize("a red apple"))
    assert ours[0][0].shape == (1, 256, 32)  # no card: FLUX's padding
    noise = torch.randn(1, 4, 6, 10)
    folder_text = folder.encode(["a red apple"])
    a = model.predict(noise, torch.tensor([0.5]), model.prepare(folder_text, noise))[0]
    b = folder.model.predict(noise, torch.tensor([0.5]), folder.model.prepare(folder_text, noise))[0]
    assert (a - b).abs().max() < 1e-5  # weights lie at other addresses, which changes the order of sums


def test_parts_of_their_own(load: Any, weights: dict[str, Tensors], models: Path, folders: dict[str, Path]) -> None:
    """flux1-dev.safetensors, ae.safetensors, clip_l and t5xxl: each by its loader, and all from the first alone."""
    names = {
        "transformer": "diffusion_models/flux1-dev",
        "vae": "vae/ae",
        "clip": "text_encoders/clip_l",
        "t5": "text_encoders/t5xxl_fp16",
    }
    for kind, name in names.items():
        save_file(weights[kind], models / f"{name}.safetensors", configs(folders["dev"]))
    folder = load("dev")
    assert same_weights(load_model("flux1-dev.safetensors", CPU).loaded.network, folder.model.loaded.network)
    assert same_weights(load_vae("ae.safetensors", CPU).loaded.network, folder.vae.loaded.network)
    for order in (["clip_l.safetensors", "t5xxl_fp16.safetensors"], ["t5xxl_fp16.safetensors", "clip_l.safetensors"]):
        clip = load_text_encoders("flux", order, CPU)
        assert same_weights(clip.encoders["t5xxl"].loaded.network, folder.clip.encoders["t5xxl"].loaded.network)
    with pytest.raises(LookupError, match="no further text encoder"):
        load_text_encoders("flux", ["clip_l.safetensors"] * 2, CPU)
    one = load_text_encoders("flux", ["clip_l.safetensors"], CPU)
    with pytest.raises(ValueError, match="needs the text encoders t5xxl too"):
        one.encode(one.tokenize("a"))
    shutil.copy(models / "diffusion_models/flux1-dev.safetensors", models / "checkpoints")
    source = checkpoint("flux1-dev.safetensors")
    assert [s.split(";")[0] for s in source.completed] == [
        f"flux1-dev.safetensors holds no {kind}" for kind in ("vae", "clip", "t5")
    ]
    assert same_weights(load_checkpoint(source, CPU)[0].loaded.network, folder.model.loaded.network)


def test_bare_network_without_companions(weights: dict[str, Tensors], models: Path) -> None:
    save_file(weights["transformer"], models / "checkpoints/bare.safetensors")
    with pytest.raises(LoadError, match=r"holds no vae, and there is no ae\.safetensors.*UNETLoader"):
        checkpoint("bare.safetensors")


def test_no_tokenizer(weights: dict[str, Tensors], models: Path) -> None:
    shutil.rmtree(models / "tokenizers/t5xxl")
    save_file(weights["t5"], models / "text_encoders/t5.safetensors")
    with pytest.raises(LoadError, match=r"no tokenizer for t5xxl \(spiece\.model.*tokenizers/t5xxl"):
        load_text_encoders("flux", ["t5.safetensors"], CPU)


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_every_key_counts(weights: dict[str, Tensors], models: Path, folders: dict[str, Path], change: str) -> None:
    net = dict(weights["transformer"])
    if change == "missing":
        del net["double_blocks.1.img_attn.proj.weight"]
    elif change == "extra":
        net["double_blocks.1.surprise.weight"] = torch.ones(2)
    else:
        net["txt_in.bias"] = torch.ones(3)
    save_file(net, models / "diffusion_models/odd.safetensors", configs(folders["dev"]))
    named = {
        "missing": r"attn\.to_out\.0\.weight",
        "extra": r"double_blocks\.1\.surprise\.weight",
        "shape": r"context_embedder\.bias",
    }
    with pytest.raises(LoadError, match=named[change]):
        load_model("odd.safetensors", CPU)


def test_weights_stay_in_the_mapped_file(models: Path) -> None:
    """Loading as stored takes no memory of its own; a cast takes that of its result only."""
    width, rows = 256, 32128
    net = _t5_of(width, rows)
    save_file(net, models / "text_encoders/t5.safetensors")
    size = sum(t.nbytes for t in net.values()) / 1e6
    del net
    found = parts(models / "text_encoders/t5.safetensors", ("t5",))["t5"]
    build(found, CPU.device, torch.float32)  # what is loaded once for all
    before = _anonymous_mb()
    kept = build(found, CPU.device, torch.float32)
    assert _anonymous_mb() - before < 0.2 * size
    cast = build(found, CPU.device, torch.bfloat16)
    assert _anonymous_mb() - before < 0.8 * size
    assert kept is not cast


def _t5_of(width: int, rows: int) -> Tensors:
    layer = "encoder.block.0.layer."
    net = {f"{layer}0.SelfAttention.{n}.weight": torch.randn(width, width) for n in "qkvo"}
    net |= {f"{layer}1.DenseReluDense.{n}.weight": torch.randn(width, width) for n in ("wi_0", "wi_1", "wo")}
    net |= {f"{layer}{i}.layer_norm.weight": torch.ones(width) for i in range(2)}
    net[f"{layer}0.SelfAttention.relative_attention_bias.weight"] = torch.randn(32, 4)
    return net | {"encoder.final_layer_norm.weight": torch.ones(width), "shared.weight": torch.randn(rows, width)}


def _anonymous_mb() -> float:
    """Memory of this process that no file stands behind."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) / 1e3  # type: ignore[index]


def test_a_whole_model_serves_every_loader(load: Any) -> None:
    model, vae = load_model("embedded/flux-tiny", CPU), load_vae("embedded/flux-tiny", CPU)
    whole, _, whole_vae = load_checkpoint(checkpoint("embedded/flux-tiny"), CPU)
    assert same_weights(model.loaded.network, whole.loaded.network) and same_weights(
        vae.loaded.network, whole_vae.loaded.network
    )
    assert model.latent == whole.latent == vae.latent and model.sampling == whole.sampling
    assert model.recommended == whole.recommended == recommend("embedded/flux-tiny", "diffusion_models")


def test_hub_cache(folders: dict[str, Path], models: Path) -> None:
    """`org/name` in the local hub cache, whose files are links."""
    snapshot = models / "hub/models--org--name/snapshots/abc"
    for file in (f for f in folders["schnell"].rglob("*") if f.is_file()):
        link = snapshot / file.relative_to(folders["schnell"])
        link.parent.mkdir(parents=True, exist_ok=True)
        blob = models / "hub/models--org--name/blobs" / str(link).replace("/", "-")
        blob.parent.mkdir(exist_ok=True)
        shutil.copy(file, blob)
        link.symlink_to(blob)
    source = checkpoint("org/name")
    assert load_checkpoint(source, CPU)[0].recommended["steps"] == 4
    assert {f.parent.name for f in source.files} >= {"transformer", "tokenizer", "tokenizer_2", "scheduler", "vae"}


def test_shapes_tell_the_config(weights: dict[str, Tensors], models: Path, folders: dict[str, Path]) -> None:
    file = models / "net.safetensors"
    scale = {"config": json.dumps({"vae": {"scaling_factor": 0.7}})}  # that of four channels is not told by shapes
    for kind, component in [("transformer", "transformer"), ("vae", "vae"), ("t5", "text_encoder_2")]:
        save_file(weights[kind], file, scale)
        told = parts(file)[kind].config
        real = json.loads((folders["dev"] / component / "config.json").read_text())
        # Not told by shapes, and facts of the real FLUX.1 instead: rotary split, group size, scale and the like.
        facts = {"axes_dims_rope", "norm_num_groups", "scaling_factor", "shift_factor", "sample_size"}
        facts |= {"dropout_rate", "tie_word_embeddings"}
        assert {k: told[k] for k in told.keys() & real.keys() - facts} == {
            k: real[k] for k in told.keys() & real.keys() - facts
        }


def test_real_shapes() -> None:
    """The rotary split that shapes give is FLUX.1's own for its head of 128."""
    from diffusers import FluxTransformer2DModel

    with torch.device("meta"):
        network = FluxTransformer2DModel(num_layers=1, num_single_layers=1)
    pieces = {n: Piece(Path(), n, tuple(t.shape), "F32", 0) for n, t in network.state_dict().items()}
    assert network_config(pieces, {})["axes_dims_rope"] == list(network.config.axes_dims_rope)


def test_flux_names_equal_diffusers_converter(tmp_path: Path) -> None:
    """Real widths, one column each: the same names and rows as diffusers' own converter."""
    from diffusers.loaders.single_file_utils import convert_flux_transformer_checkpoint_to_diffusers

    d = 3072
    rows = {
        "img_in": d,
        "txt_in": d,
        "time_in.in_layer": d,
        "time_in.out_layer": d,
        "vector_in.in_layer": d,
        "vector_in.out_layer": d,
        "guidance_in.in_layer": d,
        "guidance_in.out_layer": d,
        "final_layer.linear": 64,
        "final_layer.adaLN_modulation.1": 2 * d,
        "single_blocks.0.linear1": 7 * d,
        "single_blocks.0.linear2": d,
        "single_blocks.0.modulation.lin": 3 * d,
    }
    for s in ("img", "txt"):
        rows |= {
            f"double_blocks.0.{s}_attn.qkv": 3 * d,
            f"double_blocks.0.{s}_attn.proj": d,
            f"double_blocks.0.{s}_mlp.0": 4 * d,
            f"double_blocks.0.{s}_mlp.2": d,
            f"double_blocks.0.{s}_mod.lin": 6 * d,
        }
    net = {f"{n}.weight": torch.randn(r, 1) for n, r in rows.items()}
    net |= {f"{n}.bias": torch.randn(r) for n, r in rows.items()}
    norms = ["single_blocks.0", "double_blocks.0.img_attn", "double_blocks.0.txt_attn"]
    net |= {f"{n}.norm.{kind}_norm.scale": torch.randn(128) for n in norms for kind in ("query", "key")}
    save_file(net, tmp_path / "x.safetensors")
    made, unknown = NAMES.to_class(pieces_of([read_header(tmp_path / "x.safetensors")]))
    assert not unknown
    expected = convert_flux_transformer_checkpoint_to_diffusers(dict(net))
    assert made.keys() == expected.keys()
    for name, piece in made.items():
        tensor = net[piece.key]
        if piece.shape[0] != len(tensor):
            tensor = tensor[piece.start : piece.start + piece.shape[0]]
        if piece.swap:
            tensor = torch.cat(tensor.chunk(2)[::-1])
        assert torch.equal(tensor, expected[name]), name


def test_vae_names_equal_diffusers_converter(weights: dict[str, Tensors], tmp_path: Path) -> None:
    from diffusers.loaders.single_file_utils import convert_ldm_vae_checkpoint

    save_file(weights["vae"], tmp_path / "x.safetensors")
    made, unknown = AUTOENCODER_KL.layouts[0].names.to_class(pieces_of([read_header(tmp_path / "x.safetensors")]))
    assert not unknown
    expected = convert_ldm_vae_checkpoint(
        dict(weights["vae"]), {"down_block_types": [0] * 4, "up_block_types": [0] * 4}
    )
    assert made.keys() == expected.keys()
    assert all(torch.equal(weights["vae"][p.key].reshape(p.shape), expected[n]) for n, p in made.items())

"""Makes a small Qwen2 model with random weights, as vLLM reads it: make_model.py FOLDER.

Two layers, four heads of which two have keys and values, 32 values each, in 32-bit floats: 1,024 bytes of KV cache for
each token. A token is a byte, so that the length of a prompt is known without a tokenizer.
"""

import json
import pathlib
import sys

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LAYERS, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD = 2, 4, 2, 32, 256
HIDDEN = HEADS * HEAD_DIM
END = "<|endoftext|>"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def write_tokenizer(folder):
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary[END] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(vocabulary)


def write_config(folder, words):
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": words,
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "eos_token_id": words - 1,
        "dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config))


def weights(words):
    draw = numpy.random.default_rng(7)
    # Widths at which the likeliest token differs from step to step.
    matrix = lambda rows, columns: (draw.standard_normal((rows, columns)) * 0.3).astype(numpy.float32)
    ones = numpy.ones(HIDDEN, numpy.float32)
    tensors = {"model.embed_tokens.weight": matrix(words, HIDDEN), "lm_head.weight": matrix(words, HIDDEN)}
    tensors["model.norm.weight"] = ones
    for layer in range(LAYERS):
        place = f"model.layers.{layer}."
        for name, rows in [("q", HIDDEN), ("k", KV_HEADS * HEAD_DIM), ("v", KV_HEADS * HEAD_DIM)]:
            tensors[f"{place}self_attn.{name}_proj.weight"] = matrix(rows, HIDDEN)
            tensors[f"{place}self_attn.{name}_proj.bias"] = numpy.zeros(rows, numpy.float32)
        tensors[f"{place}self_attn.o_proj.weight"] = matrix(HIDDEN, HIDDEN)
        tensors[f"{place}mlp.gate_proj.weight"] = matrix(FEED_FORWARD, HIDDEN)
        tensors[f"{place}mlp.up_proj.weight"] = matrix(FEED_FORWARD, HIDDEN)
        tensors[f"{place}mlp.down_proj.weight"] = matrix(HIDDEN, FEED_FORWARD)
        tensors[f"{place}input_layernorm.weight"] = ones
        tensors[f"{place}post_attention_layernorm.weight"] = ones
    return tensors


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = write_tokenizer(folder)
    write_config(folder, words)
    save_file(weights(words), folder / "model.safetensors", metadata={"format": "pt"})


main()

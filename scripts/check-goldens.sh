#!/usr/bin/env bash
# Makes the goldens of tokenizers and chat templates again with the oracles of .venv, and compares
# them with those in the tree. Needs the models of `quire models` in the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
models=${QUIRE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quire}/models
python=$PWD/.venv/bin/python
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export HF_HUB_OFFLINE=1

mkdir -p "$copy/tests/golden/chat_template" "$copy/tokenizer"
cp -r tests/oracles "$copy/tests/"
(cd "$copy/tests/oracles" && "$python" chat_template_goldens.py "$models"/*.gguf >/dev/null)
diff -r tests/golden/chat_template "$copy/tests/golden/chat_template"
"$python" tests/oracles/tokenizer_goldens.py "$models" "$copy/tokenizer" >/dev/null
for made in "$copy"/tokenizer/*.json; do
  diff -q "tests/golden/tokenizer/$(basename "$made")" "$made"
done
echo "the goldens are what their oracles say"

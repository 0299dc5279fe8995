"""The files that are compared: the catalogue's four, and other formats made of its Qwen files.

The latter are made once with llama-quantize --allow-requantize, from a file that is quantised
already: good for speed, not for quality.
"""

import json
import pathlib
import subprocess

# Label -> name in the catalogue (`quire models`).
CATALOGUE = {
    "smollm2-q4_1": "smollm2-135m-instruct",
    "gemma3-q4_k_m": "gemma-3-270m",
    "0.5b-q4_k_m": "qwen2.5-coder-0.5b-instruct",
    "1.5b-q4_k_m": "qwen2.5-coder-1.5b-instruct",
}
# Label -> (label of what it is made from, llama-quantize's name of the type)
MADE = {f"{size}-{kind.lower()}": (f"{size}-q4_k_m", kind)
        for size in ("0.5b", "1.5b") for kind in ("Q4_0", "Q8_0", "F16")}
LABELS = (*CATALOGUE, *MADE)


class Models:
    def __init__(self, quire, quantize, folder):
        self.quire, self.quantize, self.folder = quire, quantize, folder

    def path(self, label):
        """The file, fetched or made first where it is missing."""
        return self._made(label) if label in MADE else self._of_catalogue(CATALOGUE[label])

    def _of_catalogue(self, name):
        for _ in range(2):
            listing = json.loads(subprocess.run([self.quire, "models", "--json"], check=True,
                                                capture_output=True, text=True).stdout)
            for entry in listing["models"]:
                if entry["name"] == name and entry["state"] == "ready":
                    return pathlib.Path(entry["file"])
            print(f"fetching {name}", flush=True)
            subprocess.run([self.quire, "pull", name], check=True)
        raise SystemExit(f"`{self.quire} pull {name}` brought no file")

    def _made(self, label):
        target = self.folder / f"{label}.gguf"
        if target.exists():
            return target
        source, kind = MADE[label]
        source = self.path(source)
        if not self.quantize.exists():
            raise SystemExit(f"{label} is made with {self.quantize}, which is not there; `make "
                             "peers` builds it")
        print(f"making {target} from {source.name}", flush=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        made = subprocess.run([self.quantize, "--allow-requantize", source, part, kind],
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"llama-quantize failed on {source}:\n{made.stderr[-2000:]}")
        part.rename(target)  # whole or not there
        return target

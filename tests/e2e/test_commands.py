"""What the programs say of themselves: help of every command, what shells complete, manual pages, wrong words, and installing it all."""
import re
import shutil
import subprocess

import pytest
from programs import BUILD, DATA, PATIENCE

COMMANDS = [[], ["serve"], ["validate"], ["rules"], ["rules", "check"], ["rules", "test"], ["rules", "list"], ["rules", "explain"],
            ["rules", "from-connector"], ["count"], ["convert"], ["check"], ["replay"], ["look"], ["top"], ["help"], ["version"], ["completion"],
            ["manual"]]


def run(program, *arguments):
    return subprocess.run([BUILD / program, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def shell(name, script, *arguments):
    """What a shell prints that has our programs on its PATH."""
    done = subprocess.run([name, *arguments, "-c", script], capture_output=True, text=True, timeout=PATIENCE,
                          env={"PATH": f"{BUILD}:/usr/bin:/bin", "HOME": "/nonexistent", "TERM": "dumb"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_that_is_listed_has_help_by_both_ways():
    listed = [line.split()[0] for line in run("profgate", "--help").stdout.splitlines() if re.match(r"  [a-z]+  ", line)]
    assert {words[0] for words in COMMANDS if words} == set(listed)
    for words in COMMANDS:
        if words == ["version"]:
            continue
        done = run("profgate", *words, "--help")
        assert done.returncode == 0 and done.stdout.startswith(" ".join(["usage: profgate", *words])), words
        assert run("profgate", "help", *words).stdout == done.stdout
    assert run("profgate", "version").stdout == run("profgate", "--version").stdout


@pytest.mark.parametrize("words, says", [
    (["servee"], "profgate: there is no command servee; did you mean serve?"),
    (["rules", "chek"], "profgate rules: there is no command chek; did you mean check?"),
    (["help", "rules", "lst"], "profgate rules: there is no command lst; did you mean list?"),
    (["serve", "--confg", "x"], "there is no flag --confg; did you mean --config?"),
    (["rules", "list", "--strict"], "there is no flag --strict"),
    (["completion", "tcsh"], "name a shell: bash, zsh or fish"),
    (["manual", "x"], "there is no page x"),
    (["manual", "config", "x"], "x: not expected here"),
    (["zzzzzz"], "there is no command zzzzzz (profgate --help"),
    (["top", "--bearer-token-file", "/no/such"], "cannot read /no/such: No such file or directory"),
    (["top", "--bearer-token-file", "/dev/null"], "/dev/null is not one line"),
    (["top", "--interval", "5"], 'profgate top: --interval: "5" is not a duration (30s)'),
    (["top", "--window", "2h"], "profgate top: --window: 2h is out of range: 0 to 1h"),
    (["top", "--for", "0s"], "profgate top: --for: 0s is out of range: 1ms to 8760h"),
    (["look", "--listen", "foo", DATA / "pprof/go-cpu.pb.gz"], 'profgate look: --listen: address "foo" has no port: write host:port'),
    (["replay", "--endpoint", "ftp://x", DATA / "pprof/go-cpu.pb.gz"], 'profgate replay: --endpoint: endpoint "ftp://x": scheme "ftp" is not'),
])
def test_a_wrong_word_is_named_with_what_was_meant(words, says):
    done = run("profgate", *words)
    assert done.returncode == 2 and done.stdout == "" and says in done.stderr


def test_flags_may_stand_behind_what_they_are_about(tmp_path):
    capture = DATA / "pprof/go-cpu.pb.gz"
    done = run("profgate", "convert", capture, tmp_path / "out", "--to", "json")
    assert done.returncode == 0 and (tmp_path / "out").read_text().startswith('{"resourceProfiles"'), done.stderr
    assert "there is no flag --nothing" in run("profgate", "count", capture, "--nothing").stderr


@pytest.mark.parametrize("words", [
    ["check", "MISSING"], ["count", "MISSING"], ["count", "--rules", "MISSING", DATA / "pprof/go-cpu.pb.gz"],
    ["convert", "MISSING", "/dev/null"], ["convert", "MISSING", DATA / "pprof/go-cpu.pb.gz", "FOLDER"], ["look", "MISSING"],
    ["replay", "MISSING"], ["replay", "MISSING.metrics.pb"], ["rules", "check", "MISSING.rules"], ["rules", "test", "MISSING.rules"],
    ["rules", "list", "MISSING.rules"], ["rules", "explain", "MISSING"], ["rules", "from-connector", "MISSING"],
    ["validate", "MISSING"], ["serve", "--config", "MISSING"], ["count", "FOLDER"], ["check", "FOLDER"], ["look", "FOLDER"],
    ["convert", "FOLDER", "/dev/null"],
], ids=lambda words: " ".join(map(str, words[:2])))
def test_a_file_that_cannot_be_opened_was_named_wrongly(words, tmp_path):
    places = {"MISSING": str(tmp_path / "none/such"), "FOLDER": str(tmp_path)}
    said = [next((str(word).replace(name, at) for name, at in places.items() if name in str(word)), word) for word in words]
    done = run("profgate", *said)
    assert done.returncode == 2, done.stderr
    assert str(tmp_path) in done.stderr and ("No such file" in done.stderr or "s a directory" in done.stderr or "there is no file" in done.stderr)


def test_a_folder_of_rules_is_said_to_be_one(tmp_path):
    done = run("profgate", "rules", "test", tmp_path)
    assert done.returncode == 2 and f"{tmp_path} is a folder: name its files, {tmp_path}/*.rules" in done.stderr


COMPLETED = [
    ("profgate ru", {"rules"}),
    ("profgate rules ", {"check", "test", "list", "explain", "from-connector"}),
    ("profgate rules check --", {"--help", "--strict", "--json"}),
    ("profgate count x.pb --r", {"--rules", "--resources"}),
    ("profsend --frequency 3 --log-level ", {"debug", "info", "warn", "error"}),
    ("profsend --spool-", {"--spool-size"}),
]


@pytest.mark.parametrize("typed, offered", COMPLETED)
def test_bash_completes(typed, offered):
    words = typed.split(" ")
    out = shell("bash", f"""source <(profgate completion bash); source <(profsend --completion bash)
        COMP_WORDS=({' '.join(words[:-1])} "{words[-1]}"); COMP_CWORD={len(words) - 1}; _{words[0]}
        printf '%s\\n' "${{COMPREPLY[@]}}\"""")
    assert set(out.split()) == offered


@pytest.mark.parametrize("typed, offered", COMPLETED)
def test_fish_completes(typed, offered):
    out = shell("fish", f"profgate completion fish | source; profsend --completion fish | source; complete -C '{typed}'", "--no-config")
    assert {line.split("\t")[0] for line in out.splitlines()} == offered


@pytest.mark.parametrize("typed, offered", COMPLETED)
def test_zsh_completes(typed, offered):
    """compadd and _describe are told what they offer, and here they print it: only a terminal would show it."""
    words = typed.split(" ")
    out = shell("zsh", f"""compdef() {{ }}; _files() {{ }}
        compadd() {{ shift; print -l -- "$@"; }}
        _describe() {{ local item; for item in "${{(@P)@[-1]}}"; do print -r -- "${{item%%:*}}"; done }}
        source <(profgate completion zsh); source <(profsend --completion zsh)
        words=({' '.join(words[:-1])} "{words[-1]}"); CURRENT={len(words)}; _{words[0]}""", "-f")
    assert {word for word in out.split() if word.startswith(words[-1])} == offered


def test_cmake_installs_programs_pages_and_completions(tmp_path):
    subprocess.run(["cmake", "--install", BUILD, "--prefix", tmp_path], check=True, capture_output=True, timeout=PATIENCE)
    pages = [tmp_path / "share/man" / page for page in ("man1/profgate.1", "man5/profgate.yaml.5", "man8/profsend.8")]
    for page in pages:
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", page], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout
    text = [subprocess.run(["mandoc", "-T", "utf8", page], capture_output=True, text=True, timeout=PATIENCE).stdout for page in pages]
    text = [re.sub(".\b", "", page) for page in text]
    assert "profgate rules explain [--stack N]" in text[0] and "--why-not NAME" in text[0]
    assert "metrics" in text[1] and "temporality" in text[1]
    assert "--off-cpu-min TIME" in text[2] and "OTEL_EXPORTER_OTLP_ENDPOINT" in text[2]
    for program in ("profgate", "profsend"):
        assert shutil.which(program, path=tmp_path / "bin")
        for file in (f"bash-completion/completions/{program}", f"zsh/site-functions/_{program}", f"fish/vendor_completions.d/{program}.fish"):
            assert (tmp_path / "share" / file).stat().st_size > 0

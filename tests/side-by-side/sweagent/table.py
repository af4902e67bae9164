"""The scenarios: what SWE-agent and `mswea-host sweagent` are given.

`config` is laid over the model's (`MODEL` in `record.py`). Replies have the short form of `given.py`. `runs` are command
lines (CONFIGS stands for both configs); without it there is one `run` with the flags of `args`.
"""

PRICES = '{"openai/test-model": {"input_cost_per_token": 0.01, "output_cost_per_token": 0.0, "litellm_provider": "openai", "mode": "chat", "max_input_tokens": 100000, "max_output_tokens": 4096}}'

# A bundle with a state command, commands of several forms, variables and an `install.sh`.
MINE = {
    "mine/config.yaml": """\
tools:
  show:
    signature: "show <path> [<line>] [<range>]"
    docstring: shows {WIDTH} columns of a file
    arguments:
      - {name: path, type: string, description: the file, required: true}
      - {name: line, type: integer, description: its line, required: false}
      - {name: range, type: array, items: {type: integer}, description: two lines, required: false, argument_format: "--range {{value|join(' ')}}"}
  change:
    signature: |
      change <from>:<to>
      <text>
      end_of_change
    docstring: changes lines
    end_name: end_of_change
    arguments:
      - {name: from, type: integer, description: first line, required: true}
      - {name: to, type: integer, description: last line, required: true}
      - {name: text, type: string, description: the text, required: true}
  say:
    signature: "say <what>"
    docstring: prints a mark
    arguments:
      - {name: what, type: string, enum: [again, silently, forfeit, submit], description: which one, required: true}
  hidden:
    docstring: is not offered
    arguments: []
state_command: _mine_state
""",
    "mine/install.sh": "export FROM_INSTALL=installed\n",
    "mine/bin/show": "#!/bin/bash\nprintf '<%s>' \"$@\"; echo \" $FROM_INSTALL $WIDTH\"\n",
    "mine/bin/change": "#!/bin/bash\necho \"lines $1\"; cat\n",
    "mine/bin/say": """\
#!/bin/bash
case "$1" in
  again) echo 'look'; echo '###SWE-AGENT-RETRY-WITH-OUTPUT###' ;;
  silently) echo '###SWE-AGENT-RETRY-WITHOUT-OUTPUT###' ;;
  forfeit) echo '###SWE-AGENT-EXIT-FORFEIT###' ;;
  submit) echo '<<SWE_AGENT_SUBMISSION>>' ;;
esac
""",
    "mine/bin/hidden": "#!/bin/bash\n",
    # SWE-agent reads the file, `mswea-host` what is printed; the home folder is `/root` there.
    "mine/bin/_mine_state": """\
#!/bin/bash
state=$(printf '{"lines": "%s"}' "$(cat a.txt 2>/dev/null | wc -l | tr -d ' ')")
echo "$state"
echo "$state" >"$HOME/state.json"
""",
}


def calls(*calls, text=None, **more):
    return {"calls": list(calls)} | ({"text": text} if text is not None else {}) | more


def call(name, arguments=None, **more):
    return {"name": name, "arguments": {} if arguments is None else arguments} | more


def run(command, text=None):
    return calls({"name": "bash", "arguments": {"command": command}}, text=text)


def say(text):
    return {"text": text}


def fenced(command, thought="Next:\n", info=""):
    return say(f"{thought}```{info}\n{command}\n```")


def failure(status, message, **more):
    return {"status": status, "body": {"error": {"message": message, "type": "invalid_request_error"} | more}}


def spoken(replies):
    """The replies, each with a text: an empty one is not quoted with the feedback on it."""
    return [{"text": "Well."} | reply for reply in replies]


SUBMIT = calls(call("submit"))


def config(parser="function_calling", bundles="tools/registry tools/submit", more="", tools="", templates=""):
    """A configuration; `tools` and `templates` are lines below those keys, `more` below `agent`."""
    listed = "".join(f"\n    - path: '{path}'" for path in bundles.split())
    return f"""\
agent:
  templates:
    system_template: You work in a shell.
    instance_template: 'Task: {{{{problem_statement}}}}'
    next_step_template: 'OBSERVATION: {{{{observation}}}}'
    next_step_no_output_template: nothing was printed
{indented(templates, 4)}  tools:
    bundles:{listed}
    parse_function: {{type: {parser}}}
    execution_timeout: 20
{indented(tools, 4)}{indented(more, 2)}"""


def indented(lines, by):
    return "".join(f"{' ' * by}{line}\n" for line in lines.strip("\n").splitlines())


FEEDBACK = "format_error_template: 'FEEDBACK {{exception_message|length > 0}} {{error_code}}'"
PLAIN = "format_error_template: 'FEEDBACK'"
PRICED = """\
agent:
  model:
    name: openai/test-model
    api_base: '@URL@'
    api_key: sk-dummy
    per_instance_cost_limit: LIMIT
    litellm_model_registry: '@WORK@/prices.json'
    retry: {retries: 1, min_wait: 0.01, max_wait: 0.01}
"""

JUDGE = "{name: openai/test-model, api_base: '@URL@', api_key: sk-dummy, per_instance_cost_limit: 0, total_cost_limit: 0, retry: {retries: 1, min_wait: 0.01, max_wait: 0.01}}"


def attempts(loop, limit=0, priced=False):
    """A configuration with several attempts."""
    model = JUDGE.replace("per_instance_cost_limit: 0", f"per_instance_cost_limit: {limit}")
    judge = JUDGE
    if priced:
        registry = ", litellm_model_registry: '@WORK@/prices.json'}"
        model, judge = model[:-1] + registry, judge[:-1] + registry
    return f"""\
agent:
  type: retry
  agent_configs:
  - model: {model}
    templates:
      system_template: You work in a shell.
      instance_template: 'Task: {{{{problem_statement}}}}'
      next_step_template: 'OBSERVATION: {{{{observation}}}}'
      next_step_no_output_template: nothing was printed
    tools:
      bundles: [{{path: tools/registry}}, {{path: tools/submit}}]
      {PLAIN}
  retry_loop:
{indented(loop.replace("JUDGE", judge), 4)}"""


SCORE = """
type: score
model: JUDGE
accept_score: 5
max_attempts: 2
cost_limit: 0
reviewer_config:
  system_template: You judge.
  instance_template: 'P {{problem_statement}} S {{exit_status}} N {{model_stats_api_calls}} T {{traj}} X {{submission}}'
  n_sample: 2
  reduce_by_std: 1
  failure_score_penalty: 3
  score_range: [0, 10]
  traj_formatter: {filter: [submit], output_filter: [cat], item_template: '{{i_step}}:{{action}}:{{observation}}'}
"""
CHOOSE = """
type: chooser
max_attempts: 3
cost_limit: 0
chooser:
  model: JUDGE
  system_template: You choose.
  instance_template: 'P {{problem_statement}}{% for s in submissions %} [{{s}}]{% endfor %}'
  submission_template: '{{submission}} {{exit_status}}'
  max_len_submission: 1000
"""
PRESELECT = "  preselector: {model: JUDGE, system_template: You sort out., instance_template: '{{submissions|length}}', submission_template: '{{submission}}'}\n"
# A configuration of attempts has no model of its own.
NONE = {"model": "{}\n"}
BATCH = ["run-batch", "CONFIGS", "--instances.type=file", "--instances.path=@WORK@/tasks.jsonl", "--instances.deployment.type=local", "--output_dir=@WORK@/out"]
TASKS = "".join(f'{{"instance_id": "{id}", "problem_statement": "task {id}", "image_name": "", "repo_name": "@WORK@/sbsrepo"}}\n' for id in ("i1", "i2", "i3"))

SCENARIOS = {
    # Parsers.
    "parse_calls": {"what": "tool calls, with and without a text", "config": config(), "replies": [run("echo hi; cat a.txt", "Look:"), run("echo two >>a.txt"), run("true", ""), SUBMIT]},
    "parse_calls_errors": {
        "what": "replies that are no tool call, several, unknown, or with wrong arguments",
        "config": config(tools=FEEDBACK, more="max_requeries: 20"),
        "replies": spoken([
            say("no call"), calls(call("bash", {"command": "ls"}), call("bash", {"command": "ls"})), calls(call("nosuch", {"a": 1})),
            calls(call("bash", "{broken")), calls(call("bash", {})), calls(call("bash", {"command": "ls", "more": 1})), SUBMIT,
        ]),
    },
    "parse_arguments": {
        "what": "arguments of several types, quoted for the shell", "files": MINE,
        "config": config(bundles="tools/registry @WORK@/mine tools/submit", tools="env_variables: {WIDTH: '80'}"),
        "replies": [
            calls(call("show", {"path": "a b'c"})), calls(call("show", {"path": "x", "line": 3, "range": [1, 10]})),
            calls(call("show", {"path": "", "line": 0})), calls(call("show", {"path": "$HOME `x` \\"})), calls(call("show", {"path": 5, "line": "six"})),
            calls(call("change", {"from": 1, "to": 2, "text": "a {x}\n  b 'c'"})), run("echo '{a}' $FROM_INSTALL"), SUBMIT,
        ],
    },
    "parse_thought_action": {
        "what": "commands in fences", "config": config("thought_action", tools=PLAIN, more="max_requeries: 9"),
        "replies": [fenced("echo hi"), say("```\necho 1\n```\nthen\n```bash\necho 2\n```\nend"), say("no fence"), say("inline ```ls```"), say("```bash\ncat <<'E'\na\nE\n```"), fenced("submit")],
    },
    "parse_edit_format": {"what": "the parser `edit_format`", "config": config("edit_format", tools=PLAIN), "replies": [fenced("echo hi"), say("none"), fenced("submit")]},
    "parse_xml_thought_action": {
        "what": "commands in tags", "config": config("xml_thought_action", tools=PLAIN, more="max_requeries: 9"),
        "replies": [say("a <command> echo hi </command> b"), say("<command>echo 1</command><command>echo 2</command>"), say("none"), say("<command>submit</command>")],
    },
    "parse_xml_function_calling": {
        "what": "functions in tags", "config": config("xml_function_calling", tools=PLAIN, more="max_requeries: 9"),
        "replies": [
            say("go\n<function=bash>\n<parameter=command>echo hi</parameter>\n</function>"), say("<function=execute_bash>\n<parameter=command>\necho 2\n</parameter>\n</function>"),
            say("<function=nosuch>\n</function>"), say("<function=bash>\n</function>"), say("<function=submit>\n</function>"),
        ],
    },
    "parse_json": {
        "what": "replies in JSON", "config": config("json", tools=PLAIN, more="max_requeries: 9"),
        "replies": [
            say('{"thought": "t", "command": {"name": "bash", "arguments": {"command": "echo hi"}}}'), say('{"thought": "t", "command": {"name": "echo", "arguments": {"a": "x", "b": "y z"}}}'),
            say("[]"), say('{"command": {"name": "ls"}}'), say("no json"), say('{"thought": "t", "command": {"name": "submit"}}'),
        ],
    },
    "parse_action": {"what": "a whole reply as a command that there is", "config": config("action", tools=PLAIN, more="max_requeries: 9"), "replies": [say("bash -c 'echo hi'"), say("echo hi"), say("submit")]},
    "parse_action_only": {"what": "a whole reply as a command", "config": config("action_only"), "replies": [say("echo hi"), say("cat a.txt\nls"), say("submit")]},
    "parse_identity": {"what": "a whole reply as a command and as a thought", "config": config("identity"), "replies": [say("echo hi"), say("submit")]},
    "parse_all_blocks": {
        "what": "all blocks for bash", "config": config("all_bash_code_blocks", tools=PLAIN, more="max_requeries: 9"),
        "replies": [say("a\n```bash\necho 1\n```\nb\n```bash\necho 2\n```\nc"), say("```\nls\n```"), say("none"), fenced("submit", info="bash")],
    },
    "parse_single_block": {
        "what": "one block for bash", "config": config("single_bash_code_block", tools=PLAIN, more="max_requeries: 9"),
        "replies": [fenced("echo 1", info="bash"), say("```bash\necho 1\n```\n```bash\necho 2\n```"), say("none"), fenced("submit", info="bash")],
    },
    # The ladder.
    "ladder_used_up": {"what": "three replies without a command", "config": config(tools=PLAIN), "replies": [run("echo two >>a.txt"), say("one"), say("two"), say("three")]},
    "ladder_used_up_clean": {"what": "the same, and nothing to submit", "config": config(tools=PLAIN), "replies": [say("one"), say("two"), say("three")]},
    "ladder_one": {"what": "a single try", "config": config(tools=PLAIN, more="max_requeries: 1"), "replies": [run("true"), say("one")]},
    "ladder_blocked": {
        "what": "commands that the blocklist denies",
        "config": config(tools="filter: {blocklist_error_template: 'no {{action}}'}", more="max_requeries: 9"),
        "replies": spoken([run("vim a.txt"), run("python"), run("python -c 'print(1)'"), run("ls; vim --version >/dev/null 2>&1; true"), run("su"), SUBMIT]),
    },
    "ladder_own_blocklist": {
        "what": "a blocklist of the configuration",
        "config": config(tools="filter: {blocklist: [cat], blocklist_standalone: [ls], blocklist_error_template: 'no'}", more="max_requeries: 9"),
        "replies": spoken([run("cat a.txt"), run("ls"), run("ls ."), SUBMIT]),
    },
    "ladder_word": {
        "what": "a program whose name begins like a denied one",
        "config": config(tools="filter: {blocklist: [cat], blocklist_standalone: [], blocklist_error_template: 'no'}", more="max_requeries: 9"),
        "replies": spoken([run("catalog 2>/dev/null || true"), SUBMIT]),
    },
    "ladder_empty": {"what": "an unusable reply without a text", "config": config(tools=PLAIN), "replies": [calls(call("nosuch")), SUBMIT]},
    "ladder_syntax": {
        "what": "a command that bash can't read", "config": config(templates="shell_check_error_template: 'SYNTAX {{bash_stdout|length}}'"),
        "replies": spoken([run("echo ("), run("if true; then"), run("echo ok"), SUBMIT]),
    },
    "ladder_mixed": {
        "what": "all kinds of refusals in one step",
        "config": config(tools="format_error_template: FEEDBACK\nfilter: {blocklist_error_template: 'no {{action}}'}", templates="shell_check_error_template: SYNTAX", more="max_requeries: 5"),
        "replies": spoken([say("x"), run("vim"), run("echo ("), say("y"), run("echo ok"), say("x"), run("vim"), run("echo ("), say("y"), say("z")]),
    },
    "ladder_content_policy": {
        "what": "the provider's policy refuses, and the reply is asked for again", "config": config(),
        "replies": [failure(400, "rejected as a result of our safety system", code="content_policy_violation"), run("echo ok"), SUBMIT],
    },
    "ladder_marks": {
        "what": "tools that ask again, with and without their output", "files": MINE,
        "config": config(bundles="tools/registry @WORK@/mine tools/submit", tools="env_variables: {WIDTH: '80'}"),
        "replies": spoken([calls(call("say", {"what": "again"})), calls(call("say", {"what": "again"})), calls(call("say", {"what": "silently"})), calls(call("say", {"what": "again"})), run("echo ok"), SUBMIT]),
    },
    "end_forfeit": {
        "what": "a tool gives up", "files": MINE, "config": config(bundles="tools/registry @WORK@/mine tools/submit", tools="env_variables: {WIDTH: '80'}"),
        "replies": [run("echo two >>a.txt"), calls(call("say", {"what": "forfeit"}))],
    },
    "end_exit": {"what": "the command `exit`", "config": config(), "replies": [run("echo two >>a.txt"), run(" exit ")]},
    "end_shell_dies": {"what": "a command that ends the shell", "config": config(), "replies": [run("echo two >>a.txt"), run("exit 3")]},
    "end_no_patch_file": {
        "what": "a submission without a file is none", "files": MINE, "config": config(bundles="tools/registry @WORK@/mine tools/submit", tools="env_variables: {WIDTH: '80'}"),
        "replies": [calls(call("say", {"what": "submit"})), run("echo ok"), SUBMIT],
    },
    "end_new_file": {"what": "new, changed and removed files", "config": config(), "replies": [run("mkdir d; echo x >d/new.txt; git rm -q a.txt; printf 'no end' >e"), SUBMIT]},
    # Limits.
    "limit_calls": {"what": "the limit of calls", "config": config(), "args": ["--problem_statement.text=fix it", "--agent.model.per_instance_call_limit=2"], "replies": [run("echo two >>a.txt"), run("true"), run("echo lost >>a.txt"), SUBMIT]},
    "limit_cost": {"what": "the limit of costs", "model": PRICED.replace("LIMIT", "2.5"), "files": {"prices.json": PRICES}, "config": config(), "replies": [run("echo two >>a.txt"), run("true"), run("echo lost >>a.txt"), SUBMIT]},
    "limit_timeouts": {
        "what": "commands that take too long, in a row", "config": config(tools="max_consecutive_execution_timeouts: 2", templates="command_cancelled_timeout_template: 'LATE {{command}} {{timeout}}'").replace("execution_timeout: 20", "execution_timeout: 1"),
        "replies": [run("echo two >>a.txt"), run("sleep 30"), run("echo again"), run("sleep 31"), run("sleep 32")],
    },
    "limit_total_time": {"what": "the time of all commands", "config": config(tools="total_execution_timeout: 1"), "replies": [run("sleep 1.5"), run("echo late")]},
    "limit_context": {
        "what": "the context window is exceeded", "config": config(),
        "replies": [run("echo two >>a.txt"), failure(400, "This model's maximum context length is 10 tokens. However, your messages resulted in 20 tokens.", code="context_length_exceeded")],
    },
    "limit_api_error": {"what": "the key is refused", "config": config(), "replies": [run("echo two >>a.txt"), failure(401, "wrong key", code="invalid_api_key")]},
    # Templates.
    "show_truncated": {
        "what": "long outputs", "config": config(templates="max_observation_length: 10\nnext_step_truncated_observation_template: 'CUT {{observation[:4]}}|{{elided_chars}}|{{max_observation_length}}'"),
        "replies": [run("printf 1234567890"), run("printf 12345678901"), run("printf '\\303\\251%.0s' 1 2 3 4 5 6 7 8 9 10 11 12"), run("printf ' \\n '"), SUBMIT],
    },
    "show_outputs": {
        "what": "outputs of many kinds", "config": config(),
        "replies": [run("printf 'no end'"), run("printf '\\n\\n a \\n\\n'"), run("echo err >&2; echo out"), run("printf '\\033[31mred\\033[0m\\n'"), run("printf 'a\\rb\\n'"), run("printf '\\377\\n'"), run("false"), run("cd /; pwd; export X=5"), run("pwd; echo $X"), run("# nothing"), run("for i in 1 2; do\n echo $i\ndone"), run("cat <<E\nhi\nE"), run("nosuchcommand 2>/dev/null; echo $?"), SUBMIT],
    },
    "show_fields": {
        "what": "extra fields, variables and the strategy in templates",
        "config": config(templates="strategy_template: 'Strategy {{points}} {{WIDTH}}'", tools="env_variables: {WIDTH: '80', PAGER: cat}").replace("'Task: {{problem_statement}}'", "'Task: {{problem_statement}} {{points}} {{WIDTH}} {{repo}}'"),
        "args": ["--problem_statement.text=fix {{it}}", "--problem_statement.extra_fields={\"points\": 7}"],
        "replies": [run("echo $WIDTH; printf '%s' \"$PROBLEM_STATEMENT\""), SUBMIT],
    },
    "show_state": {
        "what": "the state in templates", "files": MINE,
        "config": config(bundles="tools/registry @WORK@/mine tools/submit", tools="env_variables: {WIDTH: '80'}", templates="").replace("'OBSERVATION: {{observation}}'", "'{{lines}} lines: {{observation}}'"),
        "replies": [run("echo two >>a.txt; echo ok"), run("rm a.txt; echo gone"), SUBMIT],
    },
    "show_docs": {
        "what": "the commands' documentation", "files": MINE,
        "config": config("json", bundles="tools/registry tools/submit", tools="env_variables: {WIDTH: '80'}\nenable_bash_tool: false").replace("path: 'tools/registry'", "path: 'tools/registry'\n    - path: '@WORK@/mine'\n      hidden_tools: [hidden]").replace("    - path: 'tools/submit'\n", "").replace("You work in a shell.", "'{{command_docs}}'"),
        "replies": [say('{"thought": "t", "command": {"name": "change", "arguments": {"from": 1, "to": 2, "text": "a b"}}}'), say('{"thought": "t", "command": {"name": "say", "arguments": {"what": "forfeit"}}}')],
    },
    "show_demonstration": {
        "what": "a demonstration as a text", "files": {"demo.yaml": "history:\n- {role: system, content: s, agent: main, message_type: system_prompt}\n- {role: user, content: shown task, agent: main, message_type: observation}\n- {role: assistant, content: shown reply, agent: main, message_type: action, thought: t, action: ls}\n"},
        "config": config(templates="demonstrations: ['@WORK@/demo.yaml']\ndemonstration_template: 'DEMO {{demonstration}} END'"),
        "replies": [SUBMIT],
    },
    "show_demonstration_history": {
        "what": "a demonstration as messages", "files": {"demo.yaml": "history:\n- {role: system, content: s, agent: main, message_type: system_prompt}\n- {role: user, content: shown task, agent: main, message_type: observation}\n- {role: assistant, content: shown reply, agent: main, message_type: action, thought: t, action: ls}\n- {role: user, content: shown output, agent: main, message_type: observation}\n"},
        "config": config("thought_action", templates="demonstrations: ['@WORK@/demo.yaml']\nput_demos_in_history: true", more="history_processors: [{type: last_n_observations, n: 1}]"),
        "replies": [fenced("echo 1"), fenced("echo 2"), fenced("submit")],
    },
    # History processors.
    "history_last": {"what": "the last observations", "config": config(more="history_processors: [{type: last_n_observations, n: 2}]"), "replies": [run("echo 1"), run("printf 'a\\nb\\nc\\n'"), run("echo 3"), run("echo 4"), SUBMIT]},
    "history_polling": {"what": "the last observations, changed every third step", "config": config(more="history_processors: [{type: last_n_observations, n: 1, polling: 3}]"), "replies": [*(run(f"echo {i}") for i in range(6)), SUBMIT]},
    "history_regex": {"what": "parts of messages are removed", "config": config(more="history_processors: [{type: remove_regex, remove: ['<d>.*</d>'], keep_last: 1}]"), "replies": [run("echo 'a<d>b</d>c<d>d</d>e'"), run("echo '<d>x</d>'"), run("true"), SUBMIT]},
    "history_window": {
        "what": "windows of files that are closed", "config": config("thought_action", more="history_processors: [{type: closed_window}]"),
        "replies": [fenced("printf '[File: /x (3 lines total)]\\n1:a\\n2:b\\n'"), fenced("printf '[File: /x (3 lines total)]\\n2:b\\n3:c\\n'"), fenced("printf '[File: /y (1 lines total)]\\n1:y\\n'"), fenced("submit")],
    },
    "history_cache": {"what": "marks for the cache", "config": config(more="history_processors: [{type: cache_control, last_n_messages: 2}]"), "replies": [run("echo 1"), run("echo 2"), run("echo 3"), SUBMIT]},
    # Bundles of SWE-agent, and those that take their place.
    "bundle_windowed": {
        "what": "the windowed viewer and the search", "config": config("thought_action", bundles="tools/registry tools/windowed tools/search tools/submit", tools="env_variables: {WINDOW: '10', OVERLAP: '2'}").replace("'OBSERVATION: {{observation}}'", "'{{observation}}({{open_file}}) ({{working_dir}})'"),
        "replies": [fenced("seq 100 >long.txt"), *map(fenced, ["open long.txt", "scroll_down", "scroll_up", "goto 50", "goto 500", "open long.txt 95", "create new.py", "open nosuch", "find_file '*.txt'", "search_file 99 long.txt", "search_dir one", "search_dir nosuchthing"]), fenced("submit")],
    },
    "bundle_editor": {
        "what": "the editor of files", "config": config(bundles="tools/registry tools/edit_anthropic tools/submit"),
        "replies": [
            *(calls(call("str_replace_editor", {"path": "@FILE@"} | arguments)) for arguments in [
                {"command": "create", "file_text": "one\ntwo\nthree\n"}, {"command": "view"}, {"command": "view", "view_range": [2, 3]}, {"command": "str_replace", "old_str": "two", "new_str": "2"},
                {"command": "str_replace", "old_str": "nosuch", "new_str": "2"}, {"command": "insert", "insert_line": 1, "new_str": "inserted"}, {"command": "create", "file_text": "x"}, {"command": "view", "view_range": [9, 3]},
            ]), SUBMIT,
        ],
    },
    "bundle_review": {
        "what": "a review before the submission", "config": config(bundles="tools/registry tools/review_on_submit_m", tools="registry_variables:\n  SUBMIT_REVIEW_MESSAGES: ['first {{diff}} {{problem_statement}}', second]\n  USE_FILEMAP: 'true'"),
        "replies": [run("echo two >>a.txt"), calls(call("submit")), run("echo three >>a.txt"), calls(call("submit")), calls(call("submit"))],
    },
    "bundle_diff_state": {
        "what": "the diff in the state", "config": config(bundles="tools/registry tools/diff_state tools/submit").replace("'OBSERVATION: {{observation}}'", "'{{observation}}{{diff}}'"),
        "replies": [run("echo two >>a.txt; echo ok"), SUBMIT],
    },
    "bundle_forfeit": {"what": "the tool that gives up", "config": config(bundles="tools/registry tools/forfeit tools/submit"), "replies": [calls(call("exit_forfeit"))]},
    # Attempts.
    "attempts_score": {
        "what": "the second attempt is accepted", "config": attempts(SCORE), **NONE,
        "replies": [run("echo first >>a.txt"), run("cat a.txt"), SUBMIT, say("bad\nscore 2"), say("4 of 11\nno 3\n"), run("cat a.txt; echo second >>a.txt"), SUBMIT, say("9"), say("nothing")],
    },
    "attempts_accepted": {"what": "the first attempt is accepted", "config": attempts(SCORE), **NONE, "replies": [run("echo first >>a.txt"), SUBMIT, say("7"), say("8")]},
    "attempts_invalid": {"what": "no review can be used", "config": attempts(SCORE), **NONE, "replies": [SUBMIT, say("?"), say("99"), say("x"), say("y"), say("z"), failure(400, "no"), say("-1")]},
    "attempts_budget": {
        "what": "too little is left for a second attempt", "config": attempts(SCORE.replace("cost_limit: 0", "cost_limit: 4.5\nmin_budget_for_new_attempt: 1.5"), 3, True), **NONE, "files": {"prices.json": PRICES},
        "replies": [SUBMIT, say("1"), say("1"), SUBMIT, say("1"), say("1")],
    },
    "attempts_cost": {
        "what": "what is left limits the second attempt", "config": attempts(SCORE.replace("cost_limit: 0", "cost_limit: 5.5"), 3, True), **NONE, "files": {"prices.json": PRICES},
        "replies": [run("true"), SUBMIT, say("1"), say("1"), run("echo x >>a.txt"), run("true"), say("4"), say("4")],
    },
    "attempts_choose": {
        "what": "a chooser among three attempts", "config": attempts(CHOOSE), **NONE,
        "replies": [run("echo a >>a.txt"), SUBMIT, run("echo b >>a.txt"), SUBMIT, run("echo c >>a.txt"), SUBMIT, say("not 0 but\n2")],
    },
    "attempts_choose_submitted": {
        "what": "a chooser among those that have submitted", "config": attempts(CHOOSE), **NONE,
        "replies": [run("echo a >>a.txt"), run("exit"), run("echo b >>a.txt"), SUBMIT, run("echo c >>a.txt"), SUBMIT, say("1")],
    },
    "attempts_preselect": {
        "what": "a preselector before the chooser", "config": attempts(CHOOSE + PRESELECT), **NONE,
        "replies": [run("echo a >>a.txt"), SUBMIT, run("echo b >>a.txt"), SUBMIT, run("echo c >>a.txt"), SUBMIT, say("0\n1, 2"), say("1")],
    },
    "attempts_choose_nonsense": {
        "what": "a chooser without a choice", "config": attempts(CHOOSE.replace("max_attempts: 3", "max_attempts: 2").replace("1000", "10")), **NONE,
        "replies": [run("echo a >>a.txt"), SUBMIT, run("echo b >>a.txt"), SUBMIT, say("neither")],
    },
    # Samplers.
    "sample_colleagues": {
        "what": "colleagues are asked first", "config": config(tools=PLAIN, more="action_sampler: {type: ask_colleagues, n_samples: 2}"),
        "replies": [run("echo 1", "first"), run("echo 2", "second"), run("echo 3", "mine"), say("no call"), run("echo 5", "fifth"), SUBMIT, say("none"), say("none"), SUBMIT],
    },
    "sample_comparison": {
        "what": "a tournament of replies",
        "config": config(tools=PLAIN, more="""\
action_sampler:
  type: binary_trajectory_comparison
  min_n_samples: 3
  max_n_samples: 4
  system_template: You compare.
  instance_template: 'P {{problem_statement}} T {{traj}}'
  comparison_template: '1 {{thought1}} {{action1}} 2 {{thought2}} {{action2}}'
"""),
        "replies": [run("echo 1", "a"), run("echo 2", "b"), run("echo 1", "c"), say("second"), run("echo 3", "d"), run("echo 4", "e"), run("echo 5", "f"), say("the first"), say("neither"), SUBMIT, SUBMIT, SUBMIT],
    },
    # Batches and replays.
    "batch_file": {
        "what": "a batch of three", "config": config(tools=PLAIN), "runs": [BATCH], "ids": ["i1", "i2", "i3"], "files": {"tasks.jsonl": TASKS},
        "replies": [run("echo 1 >>a.txt"), SUBMIT, say("x"), say("y"), say("z"), run("exit")],
    },
    "batch_choice": {
        "what": "a filter, a slice and a shuffle", "config": config(), "runs": [[*BATCH, "--instances.filter=i[13]", "--instances.slice=:1", "--instances.shuffle=true"]], "ids": ["i1", "i2", "i3"], "files": {"tasks.jsonl": TASKS},
        "replies": [run("echo 1 >>a.txt"), SUBMIT, SUBMIT, SUBMIT],
    },
    "batch_again": {
        "what": "the same batch again does nothing", "config": config(), "runs": [[*BATCH, "--instances.slice=:1"], [*BATCH, "--instances.slice=:2"]], "ids": ["i1", "i2"], "files": {"tasks.jsonl": TASKS},
        "replies": [run("echo 1 >>a.txt"), SUBMIT, run("echo 2 >>a.txt"), SUBMIT],
    },
    "batch_attempts": {
        "what": "attempts in a batch", "config": attempts(SCORE.replace("n_sample: 2", "n_sample: 1")), **NONE, "runs": [[*BATCH, "--instances.slice=:2"]], "ids": ["i1", "i2"], "files": {"tasks.jsonl": TASKS},
        "replies": [run("echo 1 >>a.txt"), SUBMIT, say("1"), run("echo 2 >>a.txt"), SUBMIT, say("6"), SUBMIT, say("9")],
    },
    "replay": {
        "what": "a run, and its replay", "config": config(),
        "runs": [
            ["run", "CONFIGS", "--env.deployment.type=local", "--env.repo.path=@WORK@/sbsrepo", "--problem_statement.id=one", "--problem_statement.text=fix it", "--output_dir=@WORK@/first"],
            ["run-replay", "--traj_path=@WORK@/first/one/one.traj", "--deployment.type=local", "--output_dir=@WORK@/out"],
        ],
        "replies": [run("echo two >>a.txt; echo ok"), run("cat a.txt"), SUBMIT],
    },
    "statement_file": {"what": "a problem statement in a file, and commands at the start", "files": {"task.md": "fix\nit all\n"}, "config": config() + "env: {post_startup_commands: ['echo started >started.txt', 'export STARTED=yes']}\n", "args": ["--problem_statement.path=@WORK@/task.md"], "replies": [run("cat started.txt; echo $STARTED"), SUBMIT]},
}

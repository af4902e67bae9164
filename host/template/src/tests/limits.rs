//! Templates that would take unlimited time or memory.

use super::*;

/// Each of these templates must end, use little memory, and not overflow the stack.
#[test]
fn hostile_templates_end() {
    let vars = object(json!({"big": "x".repeat(1 << 20)}));
    let nested = "{% set a = [a] %}".repeat(15_000);
    let cases: &[(&str, &str)] = &[
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "gave up",
        ),
        (
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "recursion",
        ),
        (
            "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
            "recursion",
        ),
        ("{% include 'template' %}", "template not found"),
        ("{{ 'x' * 99999999999 }}", "would exceed 64 MiB"),
        (
            "{% for i in range(999) %}{{ big }}{% endfor %}",
            "exceeds 64 MiB",
        ),
        ("{{ 'x'.ljust(99999999999) }}", "too much"),
        ("{{ big|replace('x', big) }}", "would exceed 64 MiB"),
        ("{{ big.replace('x', big) }}", "would exceed 64 MiB"),
        ("{{ big.join(big) }}", "would exceed 64 MiB"),
        ("{{ big|join(big) }}", "would exceed 64 MiB"),
        ("{{ big|wordwrap(1, true, big) }}", "would exceed 64 MiB"),
        ("{{ (big|wordwrap(1))|indent(big) }}", "would exceed 64 MiB"),
        (
            "{{ big.replace('x', '\t').expandtabs(9999) }}",
            "would exceed 64 MiB",
        ),
        ("{{ '%99999999999d' % 1 }}", "too much"),
        ("{{ '%.99999f' % 1 }}", "too much"),
        ("{{ '{:99999999999}'.format(1) }}", "too much"),
        (
            "{{ ('{:30000}' * 9000).format(*range(9000)) }}",
            "would exceed 64 MiB",
        ),
        ("{{ 1|round(-999999999) }}", "too low"),
        ("{{ 'x'|center(99999999999) }}", "too much"),
        ("{{ 1 is divisibleby 0 }}", "by 0"),
        ("{{ range(999999999999) }}", "too large"),
        ("{{ [1]|batch(9999999999)|list }}", "too many parts"),
        ("{% for in x %}{% endfor %}", "undefined"),
        ("{{ [1]|tojson(indent=9999999) }}", "too wide"),
        (
            "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a|tojson }}",
            "nested too deeply",
        ),
        (&"(".repeat(MAX_SOURCE / 2 - 10), ""),
        (
            &format!(
                "{{{{ {}1{} }}}}",
                "(".repeat(MAX_SOURCE / 2 - 10),
                ")".repeat(MAX_SOURCE / 2 - 10)
            ),
            "recursion",
        ),
        (
            &format!("{}{{{{ a|tojson }}}}", nested.replacen("[a]", "[]", 1)),
            "nested too deeply",
        ),
        (
            &format!("{{{{ {}1{} }}}}", "[".repeat(120_000), "]".repeat(120_000)),
            "",
        ),
        (&format!("{{{{ a{} }}}}", "|e".repeat(120_000)), ""),
        (&format!("{{{{ a{} }}}}", "[a]".repeat(80_000)), ""),
        (
            &format!("{{% if 1 %}}{}", "{% elif 1 %}".repeat(20_000)),
            "",
        ),
        (&"{% if 1 %}".repeat(10_000), ""),
        (&format!("{{{{ {} }}}}", "-".repeat(MAX_SOURCE - 10)), ""),
        (&format!("{{{{ {}1 }}}}", "not ".repeat(60_000)), ""),
        (
            &format!("{{{{ 1{} }}}}", "+1".repeat(MAX_SOURCE / 2 - 10)),
            "",
        ),
        (
            &format!("{{{{ a{} }}}}", ".a".repeat(MAX_SOURCE / 2 - 10)),
            "",
        ),
        (
            &format!("{{{{ 1{} }}}}", "~1".repeat(MAX_SOURCE / 2 - 10)),
            "",
        ),
        (&format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(20_000)), ""),
    ];
    for &(template, expected) in cases {
        let start = Instant::now();
        let result = Templates::new().render(template, &vars);
        let head: String = template.chars().take(60).collect();
        assert!(start.elapsed() < Duration::from_secs(20), "{head}");
        match result {
            Ok(_) => assert_eq!(expected, "", "{head}"),
            Err(error) => assert!(
                error.message.contains(expected),
                "{head}: {}",
                error.message
            ),
        }
    }
}

/// This process's peak memory in MiB since the last reset.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib: usize = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib >> 10
}

/// Runs in a process of its own, because it measures memory: no template may use much more than the
/// limit, which is checked after each operator.
#[test]
fn what_grows_is_bounded() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::limits::growing",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let grown = text.split("grown by ").nth(1).unwrap().split(' ').next();
    let grown: usize = grown.unwrap().parse().unwrap();
    assert!(grown < 600, "{text}");
}

/// Each of these grows, or continues, up to a limit.
#[test]
#[ignore = "a part of `what_grows_is_bounded`"]
fn growing() {
    let vars = object(json!({
        "big": "x".repeat(4 << 20),
        "lines": (0..20_000).map(|line| format!("line {line}")).collect::<Vec<_>>(),
    }));
    let before = peak();
    let mut wrong = Vec::new();
    let doubling = |start: &str, step: &str| {
        format!(
            "{{% set ns = namespace(a={start}) %}}{{% for i in range(200) %}}{{% set ns.a = {step} %}}{{% endfor %}}{{{{ ns.a|length }}}}"
        )
    };
    let text = "the text would exceed 64 MiB";
    let memory = "it needs more than 256 MiB";
    let work = "reads or copies more than 1 GiB";
    let steps = "gave up after 2000000 steps";
    let time = "gave up after 10 s";
    let printed = "the rendered text exceeds 64 MiB";
    let either = "one of these";
    let cases: Vec<(String, &str)> = vec![
        (doubling("'x'", "ns.a ~ ns.a"), text),
        (doubling("'x'", "ns.a + ns.a"), either),
        (doubling("'x'", "ns.a * 2"), either),
        (doubling("'x'", "[ns.a, ns.a]|join"), either),
        (doubling("'x'", "'%s%s' % (ns.a, ns.a)"), either),
        (doubling("'x'", "'%s%s'|format(ns.a, ns.a)"), either),
        (doubling("'x'", "'{0}{0}'.format(ns.a)"), either),
        (doubling("'x'", "ns.a|replace('x', 'xx')"), either),
        (doubling("'x'", "ns.a.replace('x', 'xx')"), either),
        (doubling("'xx'", "ns.a.join(ns.a|list)"), either),
        (doubling("'\\\\'", "ns.a|tojson"), either),
        (doubling("'&'", "ns.a|e|string|replace('&', '&&')"), either),
        (doubling("[1]", "ns.a + ns.a"), either),
        (doubling("[1]", "ns.a * 2"), either),
        (doubling("(1,)", "ns.a + ns.a"), either),
        (doubling("(1,)", "ns.a * 2"), either),
        (doubling("[1]", "[ns.a, ns.a]"), either),
        (doubling("[1]", "(ns.a, ns.a)"), either),
        (doubling("{}", "{'a': ns.a, 'b': ns.a}"), either),
        (doubling("{}", "dict(a=ns.a, b=ns.a)"), either),
        (doubling("[1]", "ns.a|chain(ns.a)"), either),
        (doubling("[[1]]", "[ns.a, ns.a]|sum(start=[])"), either),
        (doubling("[1, 2]", "ns.a|map(attribute='q', default=ns.a)|list"), either),
        (doubling("['ab']", "['xx']|map('replace', 'x', ns.a|join)|list"), either),
        (doubling("[1]", "cycler(ns.a, ns.a)"), either),
        (doubling("[1]", "[1]|batch(3, ns.a)|list"), either),
        (
            "{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}{% endfor %}".into(),
            either,
        ),
        (
            "{% macro m(a, n) %}{% if n %}{{ m(a ~ a, n - 1) }}{{ m(a ~ a, n - 1) }}{% else %}{{ a }}{% endif %}{% endmacro %}{% set x = m('x', 20) %}".into(),
            either,
        ),
        (format!("{{{{ [{}]|join|length }}}}", "big, ".repeat(90)), either),
        ("{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = ns.a + [big ~ i] %}{% endfor %}".into(), either),
        ("{{ [big]|list * 100000000 }}".into(), either),
        ("{{ 'x' * 100000000 }}".into(), either),
        (format!("{{{{ {} 'x' }}}}", "'x' * 50000000 ~ ".repeat(900)), either),
        (format!("{{{{ [{}]|length }}}}", "'x' * 50000000, ".repeat(900)), either),
        ("{{ range(10**9)|list }}".into(), "too large"),
        ("{{ [range(99999)] * 99999 }}".into(), ""),
        ("{{ [big] * 1000 }}".into(), "exceeds 64 MiB"),
        ("{{ ([big] * 1000)|string|length }}".into(), either),
        ("{{ ([big] * 1000)|tojson|length }}".into(), either),
        ("{{ ([big] * 1000)|pprint|length }}".into(), either),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% if big[-1] == 'y' %}{% endif %}{% endfor %}{% endfor %}".into(),
            either,
        ),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% set y = big[1:] %}{% endfor %}{% endfor %}".into(),
            either,
        ),
        (
            "{% set other = big ~ '' %}{% for a in range(99999) %}{% for b in range(99999) %}{% if big == other %}{% endif %}{% endfor %}{% endfor %}".into(),
            either,
        ),
        ("{{ ([big] * 100000)|sort|length }}".into(), work),
        ("{{ ([big] * 100000)|unique|list|length }}".into(), either),
        ("{{ ([big] * 100000)|map('length')|sum }}".into(), either),
        ("{{ ([big] * 100000)|map('upper')|list|length }}".into(), either),
        ("{{ ([big] * 100000)|select('eq', big ~ '')|list|length }}".into(), either),
        ("{{ ([lines] * 9999)|map('sort')|list|length }}".into(), either),
        ("{{ ('<' * 4000000)|striptags|length }}".into(), ""),
        ("{{ ('<!--x-->' * 400000)|striptags|length }}".into(), ""),
        ("{{ ('<b>' * 900000)|striptags|length }}".into(), ""),
        ("{{ (' ' * 4000000)|wordwrap(1)|length }}".into(), either),
        ("{{ ('-' * 1000000)|wordwrap(99)|length }}".into(), ""),
        (
            "{% set ns = namespace(a=0) %}{% set ns.a = ns %}".into(),
            "a namespace",
        ),
        ("{% set ns = namespace(a=0) %}{% set x = [ns] %}".into(), "a namespace"),
        (
            "{% for i in [1] %}{% set ns = namespace(a=loop) %}{% endfor %}".into(),
            "a namespace or the loop",
        ),
        (
            "{% set ns = namespace(a=[1]) %}{% for i in range(99999) %}{% set ns.a = ns.a[0:] %}{% endfor %}{{ ns.a }}".into(),
            "",
        ),
        (
            "{% set ns = namespace(a=[1]) %}{% for i in range(9999) %}{% set ns.a = cycler(ns.a) %}{% endfor %}".into(),
            "nested too deeply",
        ),
        (format!("{}{{{{ a }}}}", "{% set a = [a|default(1)] %}".repeat(5_000)), "nested too deeply"),
    ];
    for (template, expected) in cases {
        let head: String = template.chars().take(160).collect();
        let start = Instant::now();
        // the limit is that of the rendering thread, which does nothing else here
        let result = Templates::new().render(&template, &vars);
        assert!(start.elapsed() < Duration::from_secs(30), "{head}");
        let outcome = result.map_or_else(|error| error.message, |_| String::new());
        let fits = match expected == either {
            true => [text, memory, work, steps, time, printed]
                .iter()
                .any(|bound| outcome.contains(bound)),
            false if expected.is_empty() => outcome.is_empty(),
            false => outcome.contains(expected),
        };
        if !fits || outcome.len() > 4 << 10 {
            wrong.push(format!("{head}: {outcome}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("grown by {} MiB", peak() - before);
}

/// When the caller no longer waits, the thread ends long before its limits.
#[tokio::test]
async fn a_rendering_that_is_left_ends() {
    let vars = Object::new();
    let templates = Templates::new();
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ [a, b]|sort|join }}{% endfor %}{% endfor %}";
    let StartedRendering::Heavy(heavy) = templates.start(endless, Vars::new(&vars, &vars)) else {
        panic!("it is not heavy");
    };
    let running = Arc::downgrade(&templates.engine);
    tokio::time::timeout(Duration::from_millis(50), heavy.run())
        .await
        .map(|_| ())
        .unwrap_err();
    drop(templates);
    let left = Instant::now();
    // the thread still holds the value
    while running.strong_count() > 0 {
        assert!(left.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(1));
    }
}

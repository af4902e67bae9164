//! Templates that would take unlimited time or memory.

use mswea_plugin_host::{PluginLimits, bounded_templates};

use super::*;

/// For templates that may be rendered, or fail with a message of the engine's or a limit's.
const ANY: &str = "any";

/// Templates with less time, so that the tests end soon.
fn impatient() -> Templates {
    let limits = PluginLimits {
        deadline: Duration::from_secs(1),
        output: 64 << 20,
        ..PluginLimits::STANDARD
    };
    bounded_templates(None, limits)
}

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
        ("{{ 'x' * 99999999999 }}", ANY),
        ("{% for i in range(999) %}{{ big }}{% endfor %}", ANY),
        ("{{ 'x'.ljust(99999999999) }}", ANY),
        ("{{ big|replace('x', big) }}", ANY),
        ("{{ big.replace('x', big) }}", ANY),
        ("{{ big.join(big) }}", ANY),
        ("{{ big|join(big) }}", ANY),
        ("{{ big|wordwrap(1, true, big) }}", ANY),
        ("{{ (big|wordwrap(1))|indent(big) }}", ANY),
        ("{{ big.replace('x', '\t').expandtabs(9999) }}", ANY),
        ("{{ '%99999999999d' % 1 }}", ANY),
        ("{{ '%.99999f' % 1 }}", ANY),
        ("{{ '{:99999999999}'.format(1) }}", ANY),
        ("{{ ('{:30000}' * 9000).format(*range(9000)) }}", ANY),
        ("{{ 1|round(-999999999) }}", ANY),
        ("{{ 'x'|center(99999999999) }}", ANY),
        ("{{ 1 is divisibleby 0 }}", ANY),
        ("{{ range(999999999999) }}", ANY),
        ("{{ [1]|batch(9999999999)|list }}", ANY),
        ("{% for in x %}{% endfor %}", "undefined"),
        ("{{ [1]|tojson(indent=9999999) }}", ANY),
        (
            "{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}{{ ns.a|tojson }}",
            ANY,
        ),
        (&"(".repeat(MAX_SOURCE / 2 - 10), ""),
        (
            &format!(
                "{{{{ {}1{} }}}}",
                "(".repeat(MAX_SOURCE / 2 - 10),
                ")".repeat(MAX_SOURCE / 2 - 10)
            ),
            ANY,
        ),
        (
            &format!("{}{{{{ a|tojson }}}}", nested.replacen("[a]", "[]", 1)),
            ANY,
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
    let templates = impatient();
    for &(template, expected) in cases {
        let start = Instant::now();
        let result = templates.render(template, &vars);
        let head: String = template.chars().take(60).collect();
        assert!(start.elapsed() < Duration::from_secs(20), "{head}");
        match result {
            Ok(_) => assert!(expected.is_empty() || expected == ANY, "{head}"),
            Err(_) if expected == ANY => {}
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
        .args(["--exact", "limits::growing", "--ignored", "--nocapture"])
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
    let templates = impatient();
    let doubling = |start: &str, step: &str| {
        format!(
            "{{% set ns = namespace(a={start}) %}}{{% for i in range(200) %}}{{% set ns.a = {step} %}}{{% endfor %}}{{{{ ns.a|length }}}}"
        )
    };
    let cases: Vec<String> = vec![
        doubling("'x'", "ns.a ~ ns.a"),
        doubling("'x'", "ns.a + ns.a"),
        doubling("'x'", "ns.a * 2"),
        doubling("'x'", "[ns.a, ns.a]|join"),
        doubling("'x'", "'%s%s' % (ns.a, ns.a)"),
        doubling("'x'", "'%s%s'|format(ns.a, ns.a)"),
        doubling("'x'", "'{0}{0}'.format(ns.a)"),
        doubling("'x'", "ns.a|replace('x', 'xx')"),
        doubling("'x'", "ns.a.replace('x', 'xx')"),
        doubling("'xx'", "ns.a.join(ns.a|list)"),
        doubling("'\\\\'", "ns.a|tojson"),
        doubling("'&'", "ns.a|e|string|replace('&', '&&')"),
        doubling("[1]", "ns.a + ns.a"),
        doubling("[1]", "ns.a * 2"),
        doubling("(1,)", "ns.a + ns.a"),
        doubling("(1,)", "ns.a * 2"),
        doubling("[1]", "[ns.a, ns.a]"),
        doubling("[1]", "(ns.a, ns.a)"),
        doubling("{}", "{'a': ns.a, 'b': ns.a}"),
        doubling("{}", "dict(a=ns.a, b=ns.a)"),
        doubling("[1]", "ns.a|chain(ns.a)"),
        doubling("[[1]]", "[ns.a, ns.a]|sum(start=[])"),
        doubling("[1, 2]", "ns.a|map(attribute='q', default=ns.a)|list"),
        doubling("['ab']", "['xx']|map('replace', 'x', ns.a|join)|list"),
        doubling("[1]", "cycler(ns.a, ns.a)"),
        doubling("[1]", "[1]|batch(3, ns.a)|list"),
        "{% set ns = namespace(a='x') %}{% for i in range(99) %}{% set ns.a %}{{ ns.a }}{{ ns.a }}{% endset %}{% endfor %}".into(),
        "{% macro m(a, n) %}{% if n %}{{ m(a ~ a, n - 1) }}{{ m(a ~ a, n - 1) }}{% else %}{{ a }}{% endif %}{% endmacro %}{% set x = m('x', 20) %}".into(),
        format!("{{{{ [{}]|join|length }}}}", "big, ".repeat(90)),
        "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = ns.a + [big ~ i] %}{% endfor %}".into(),
        "{{ [big]|list * 100000000 }}".into(),
        "{{ 'x' * 100000000 }}".into(),
        format!("{{{{ {} 'x' }}}}", "'x' * 50000000 ~ ".repeat(900)),
        format!("{{{{ [{}]|length }}}}", "'x' * 50000000, ".repeat(900)),
        "{{ range(10**9)|list }}".into(),
        "{{ [range(99999)] * 99999 }}".into(),
        "{{ [big] * 1000 }}".into(),
        "{{ ([big] * 1000)|string|length }}".into(),
        "{{ ([big] * 1000)|tojson|length }}".into(),
        "{{ ([big] * 1000)|pprint|length }}".into(),
        "{% for a in range(99999) %}{% for b in range(99999) %}{% if big[-1] == 'y' %}{% endif %}{% endfor %}{% endfor %}".into(),
        "{% for a in range(99999) %}{% for b in range(99999) %}{% set y = big[1:] %}{% endfor %}{% endfor %}".into(),
        "{% set other = big ~ '' %}{% for a in range(99999) %}{% for b in range(99999) %}{% if big == other %}{% endif %}{% endfor %}{% endfor %}".into(),
        "{{ ([big] * 100000)|sort|length }}".into(),
        "{{ ([big] * 100000)|unique|list|length }}".into(),
        "{{ ([big] * 100000)|map('length')|sum }}".into(),
        "{{ ([big] * 100000)|map('upper')|list|length }}".into(),
        "{{ ([big] * 100000)|select('eq', big ~ '')|list|length }}".into(),
        "{{ ([lines] * 9999)|map('sort')|list|length }}".into(),
        "{{ ('<' * 4000000)|striptags|length }}".into(),
        "{{ ('<!--x-->' * 400000)|striptags|length }}".into(),
        "{{ ('<b>' * 900000)|striptags|length }}".into(),
        "{{ (' ' * 4000000)|wordwrap(1)|length }}".into(),
        "{{ ('-' * 1000000)|wordwrap(99)|length }}".into(),
        "{% set ns = namespace(a=0) %}{% set ns.a = ns %}".into(),
        "{% set ns = namespace(a=0) %}{% set x = [ns] %}".into(),
        "{% for i in [1] %}{% set ns = namespace(a=loop) %}{% endfor %}".into(),
        "{% set ns = namespace(a=[1]) %}{% for i in range(99999) %}{% set ns.a = ns.a[0:] %}{% endfor %}{{ ns.a }}".into(),
        "{% set ns = namespace(a=[1]) %}{% for i in range(9999) %}{% set ns.a = cycler(ns.a) %}{% endfor %}".into(),
        format!("{}{{{{ a }}}}", "{% set a = [a|default(1)] %}".repeat(5_000)),
    ];
    for template in cases {
        let head: String = template.chars().take(160).collect();
        let start = Instant::now();
        let outcome = templates.render(&template, &vars);
        assert!(start.elapsed() < Duration::from_secs(30), "{head}");
        let said = outcome.map_or_else(|error| error.message.len(), |text| text.len() >> 14);
        assert!(said <= 4 << 10, "{head}: {said}");
    }
    println!("grown by {} MiB", peak() - before);
}

#[test]
fn the_limit_is_named() {
    let vars = object(json!({"big": "x".repeat(1 << 20)}));
    let nested = format!(
        "{{% set a = [] %}}{}{{{{ a == a }}}}",
        "{% set a = [a] %}".repeat(14_000)
    );
    for (template, expected) in [
        ("{{ range(9)|map('string')|list|length }}", ""),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "gave up after 1 s",
        ),
        (
            "{% set ns = namespace(x=big) %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
            "it needs more than 256 MiB",
        ),
        (
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "recursion",
        ),
        (&nested, ""),
    ] {
        let message = impatient()
            .render(template, &vars)
            .map_or_else(|error| error.to_string(), |_| String::new());
        let head: String = template.chars().take(90).collect();
        assert!(message.contains(expected), "{head}: {message}");
    }
}

/// When the caller no longer waits, the rendering ends, and the next one has an instance of its own.
#[tokio::test]
async fn a_rendering_that_is_left_ends() {
    let vars = Object::new();
    let templates = templates(None);
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ [a, b]|sort|join }}{% endfor %}{% endfor %}";
    let rendering = templates.start(endless, Vars::new(&vars, &vars)).unwrap();
    tokio::time::timeout(Duration::from_millis(50), rendering.run())
        .await
        .map(|_| ())
        .unwrap_err();
    assert_eq!(templates.render("{{ 1 }}", &vars).unwrap(), "1");
}

#[test]
fn output_is_bounded() {
    let limits = PluginLimits {
        output: 1 << 20,
        ..PluginLimits::STANDARD
    };
    let vars = object(json!({"big": "x".repeat(1 << 20)}));
    let error = bounded_templates(None, limits)
        .render("{{ big }}{{ big }}", &vars)
        .unwrap_err();
    assert_eq!(error.message, "the rendered text exceeds 1 MiB");
}

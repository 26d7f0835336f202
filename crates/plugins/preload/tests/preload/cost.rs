//! What the library costs a program whose files lie elsewhere: instructions counted by callgrind, and memory.

use std::{fs, path::Path};

use forebay_scratch::RunCounter;

use crate::support::{Set, c_program, exported_names};

/// Instructions of `outside` with so many opens and reads, with the library or without.
fn instructions(set: &Set, is_preloaded: bool, opens: u32, reads: u32) -> u64 {
    let outside = set.origin().with_file_name("outside-of-the-prefix-as-long-as-paths-usually-are.h5");
    fs::write(&outside, "x").unwrap();
    let written = set.origin().with_file_name(format!("{is_preloaded}-{opens}-{reads}.callgrind"));
    let (folder, _counters) = set.new_run();
    let mut command = set.preloaded_in("valgrind", &folder);
    if !is_preloaded {
        command.env_remove("LD_PRELOAD");
    }
    command.args(["--tool=callgrind", "-q", &format!("--callgrind-out-file={}", written.display())]);
    command.arg(c_program("outside")).arg(&outside).args([opens, reads].map(|count| count.to_string()));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&written).unwrap();
    let total =
        text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
    total.and_then(|total| total.trim().parse().ok()).unwrap_or_else(|| panic!("no total in {text}"))
}

/// What one more open or read costs.
fn of_each(set: &Set, is_preloaded: bool, opens: u32, reads: u32) -> u64 {
    let few = instructions(set, is_preloaded, 10, 10);
    let many = instructions(set, is_preloaded, 10 + opens, 10 + reads);
    (many - few) / u64::from(opens.max(reads))
}

#[test]
fn a_file_outside_the_prefix_costs_few_instructions_more() {
    let set = Set::new(&[]);
    let added =
        |opens, reads| of_each(&set, true, opens, reads).saturating_sub(of_each(&set, false, opens, reads));
    let (open, pread) = (added(1000, 0), added(0, 1000));
    println!("added instructions: {open} for each open and close, {pread} for each pread");
    assert!(pread <= 60, "{pread} for each pread");
    assert!(open <= 800, "{open} for each open");
}

#[test]
fn the_library_takes_little_memory() {
    let set = Set::new(&[("a", 100_000)]);
    set.place(&["a"]);
    let script =
        format!("exec 3< {}; grep -E '^(VmRSS|RssFile|RssAnon)' /proc/$$/status", set.path("a").display());
    let rss = |text: &str| -> i64 {
        let of = |key| text.lines().find_map(|line: &str| line.strip_prefix(key)).unwrap().trim();
        of("VmRSS:").trim_end_matches(" kB").trim().parse().unwrap()
    };
    let plain = set.plain("bash").args(["-c", &script]).output().unwrap();
    let ran = set.run("bash", &["-c", &script]);
    assert_eq!(ran.count(RunCounter::OpensOnCopy), 1);
    let added = rss(&ran.good()) - rss(&String::from_utf8_lossy(&plain.stdout));
    println!("added memory: {added} KiB");
    assert!(added < 8 << 10, "{added} KiB");
}

#[test]
fn the_library_takes_little_memory_while_a_file_is_placed_and_afterwards() {
    const LIMIT: i64 = 8 << 10;
    /// Each of the four threads that read may have fetched a block that none of those that place has let go of: 7.8 MiB were seen at most.
    const WHILE_PLACED: i64 = LIMIT + (1 << 10);
    let set = Set::new(&[("a", 32_000_000)]);
    let (program, path) = (c_program("memory"), set.path("a").display().to_string());
    let arguments = [path.as_str(), "1000"];
    let taken =
        |text: &str| -> Vec<i64> { text.split_whitespace().map(|number| number.parse().unwrap()).collect() };
    let plain = set.plain(&program).args(arguments).output().unwrap();
    let plain = taken(&String::from_utf8_lossy(&plain.stdout));
    for how in ["while it is placed", "of a copy"] {
        let ran = set.run(&program, &arguments);
        assert!(ran.count(RunCounter::OpensManaged) > 0, "{:?}", ran.counts);
        let all = taken(&ran.good());
        let (most, afterwards) = (all[0] - plain[0], all[1] - plain[1]);
        println!("{how}: at most {most} KiB more, and {afterwards} KiB afterwards");
        let limit = if how == "of a copy" { LIMIT } else { WHILE_PLACED };
        assert!(most < limit && afterwards < LIMIT, "{how}: {most} KiB, {afterwards} KiB afterwards");
    }
}

#[test]
fn nothing_but_hooks_is_exported() {
    let hooks = Path::new("src/hooks");
    let sources: String =
        fs::read_dir(hooks).unwrap().flatten().map(|file| fs::read_to_string(file.path()).unwrap()).collect();
    let names = exported_names();
    assert!(names.len() > 60, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("    fn {name}(")), "{name} is exported and is no hook");
    }
}

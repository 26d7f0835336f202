//! The style sheet: system fonts, colours that hold in light and dark, one column on small screens.

/// Colours of series are those of Okabe and Ito, which readers with any kind of colour vision tell apart.
pub(super) const CSS: &str = "
:root { --bg: #f6f7f9; --card: #ffffff; --text: #1a1f27; --muted: #5b6573; --line: #dfe3e8; --axis: #9aa4b1;
  --accent: #0b5cad; --pass: #0a7a45; --fail: #b3261e; --warn: #8a5a00; --pass-bg: #e3f4ea; --fail-bg: #fbe7e5; --warn-bg: #fcf0d9;
  --s0: #0072b2; --s1: #d55e00; --s2: #009e73; --s3: #cc79a7; --s4: #b8860b; --s5: #56b4e9; --s6: #7a5cc2; --s7: #8c959f; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #12151a; --card: #1b2027; --text: #e8ebef; --muted: #9aa5b3; --line: #2c343e; --axis: #566170;
    --accent: #6bb2ff; --pass: #5dd39b; --fail: #ff8a80; --warn: #ffca6b; --pass-bg: #12301f; --fail-bg: #3a1a18; --warn-bg: #362a10;
    --s0: #4aa8e0; --s1: #f08a3c; --s2: #2fc79b; --s3: #e39bc4; --s4: #e3b341; --s5: #8fd0f5; --s6: #a98ff0; --s7: #8b949e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--text); font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 28px 24px 48px; }
header { margin-bottom: 20px; }
h1 { font-size: 26px; line-height: 1.25; margin: 2px 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 17px; margin: 28px 0 10px; }
h3 { font-size: 15px; margin: 0 0 2px; }
.brand { margin: 0; color: var(--accent); font-weight: 600; font-size: 13px; letter-spacing: 0.04em; text-transform: uppercase; }
.when, .why { margin: 0 0 8px; color: var(--muted); font-size: 13px; }
.badge { display: inline-block; padding: 3px 10px; border-radius: 999px; font-size: 13px; font-weight: 600; margin: 4px 8px 0 0; }
.pass { color: var(--pass); background: var(--pass-bg); } .fail { color: var(--fail); background: var(--fail-bg); }
.warn { color: var(--warn); background: var(--warn-bg); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 14px; margin-bottom: 16px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 14px 16px; } .tile p { margin: 0; }
.tile .name { color: var(--muted); font-size: 13px; } .tile .value { font-size: 25px; font-weight: 650; line-height: 1.3; font-variant-numeric: tabular-nums; }
.tile .more { color: var(--muted); font-size: 12.5px; }
.cards { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; margin-top: 16px; }
.card { padding: 16px 18px 12px; break-inside: avoid; }
@media (max-width: 860px) { .cards { grid-template-columns: minmax(0, 1fr); } main { padding: 18px 14px 36px; } }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--muted); font-size: 12px; font-family: inherit; font-variant-numeric: tabular-nums; }
svg .label { fill: var(--text); } svg .note { font-size: 11.5px; paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
.grid { stroke: var(--line); } .axis { stroke: var(--axis); }
.line { fill: none; stroke-width: 2.25; stroke-linejoin: round; stroke-linecap: round; } .target { stroke: var(--axis); stroke-width: 1.5; stroke-dasharray: 5 5; }
.dot { stroke: var(--card); stroke-width: 1.5; }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); } .s2 { stroke: var(--s2); } .s3 { stroke: var(--s3); }
.s4 { stroke: var(--s4); } .s5 { stroke: var(--s5); } .s6 { stroke: var(--s6); } .s7 { stroke: var(--s7); }
.c0 { fill: var(--s0); background: var(--s0); } .c1 { fill: var(--s1); background: var(--s1); } .c2 { fill: var(--s2); background: var(--s2); }
.c3 { fill: var(--s3); background: var(--s3); } .c4 { fill: var(--s4); background: var(--s4); } .c5 { fill: var(--s5); background: var(--s5); }
.c6 { fill: var(--s6); background: var(--s6); } .c7 { fill: var(--s7); background: var(--s7); }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0 2px; padding: 0; font-size: 13px; color: var(--muted); }
.key { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
@supports (width: fit-content) { .narrow .scroll { width: fit-content; min-width: min(100%, 520px); } }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 7px 14px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--muted); font-weight: 600; } tr:last-child td, tr:last-child th { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; } td .ratio { color: var(--muted); margin-left: 8px; }
@media print { body { background: #fff; } .card, .tile { break-inside: avoid; } }
";

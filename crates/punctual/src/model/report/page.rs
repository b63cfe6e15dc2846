//! One page that needs nothing else: plots with their captions, in light and dark.

use std::fmt::Write as _;

use super::plot::{Colour, escaped};

/// A page on its way.
pub struct Page {
    html: String,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1d2330;--soft:#5b6475;--rule:#e3e6ec;\
--c0:#0b62c4;--c1:#c2410c;--c2:#00875f;--c3:#b0810a;--c4:#8a5a9e;--c5:#7a8291;--c6:#c2185b}\
@media(prefers-color-scheme:dark){:root{--paper:#12161d;--ink:#e6e9ef;--soft:#a0a9b8;--rule:#2b323d;\
--c0:#62a8ff;--c1:#ff8a5c;--c2:#3fd0a0;--c3:#e9bd4a;--c4:#c79be0;--c5:#98a2b3;--c6:#ff7fab}}\
body{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1240px;padding:28px}\
h1{font-size:22px;margin:0 0 4px}h2{font-size:16px;margin:0 0 2px}p{margin:0 0 8px;color:var(--soft)}\
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:30px 36px;margin:22px 0}\
svg{width:100%;height:auto;display:block}svg text{font-size:12px;fill:var(--soft)}svg .name{fill:var(--ink)}\
.grid{stroke:var(--rule)}.even{stroke:var(--ink);stroke-dasharray:4 4;opacity:.6}polyline{fill:none}\
.thick{stroke-width:2.4}.thin{stroke-width:1.5}.dashed{stroke-width:1.8;stroke-dasharray:6 4}\
.faint{stroke-width:.9;opacity:.4}circle{fill-opacity:.75}.bar{stroke-width:6;stroke-linecap:round}\
ul{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;padding:0;margin:4px 0 0;font-size:13px}\
li i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}\
pre{font-size:12.5px;overflow-x:auto;border-top:1px solid var(--rule);padding-top:16px;color:var(--ink)}";

impl Page {
    /// A page of this title, with a sentence below.
    pub fn new(title: &str, below: &str) -> Page {
        let (title, below) = (escaped(title), escaped(below));
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\
             <body><h1>{title}</h1><p>{below}</p><main>"
        );
        Page { html }
    }

    /// Adds a plot with what it shows and what its colours mean.
    pub fn plot(&mut self, title: &str, caption: &str, svg: &str, legend: &[(Colour, String)]) {
        let (title, caption) = (escaped(title), escaped(caption));
        let _ = write!(self.html, "<section><h2>{title}</h2><p>{caption}</p>{svg}<ul>");
        for (colour, name) in legend {
            let name = escaped(name);
            let _ = write!(self.html, "<li><i style=\"background:var(--c{colour})\"></i>{name}</li>");
        }
        self.html.push_str("</ul></section>");
    }

    /// The whole, with the figures as text below the plots.
    pub fn html(mut self, figures: &str) -> String {
        let figures = escaped(figures);
        let _ = writeln!(self.html, "</main><pre>{figures}</pre></body></html>");
        self.html
    }
}

// What both kinds of guest, for one program and for many, do with one.
"use strict";

function programOf({ code, language, name, tools }) {
  const source = code.replace(/^\ufeff/, "");
  return {
    code: source,
    language,
    name: name.replace(/[\s'"`()]/g, "_"), // so that a comment can say it which names a source
    lines: source.split(/\r\n|[\n\r]/),
    toolNames: tools.map((tool) => tool.alias),
  };
}

function exitError(code) {
  return { kind: "EXIT", message: `the program ended itself with exit code ${code}` };
}

// What the process has used since a `process.cpuUsage()`.
function usageSince(before) {
  const { user, system } = process.cpuUsage(before);
  return { cpu_ms: (user + system) / 1000, max_rss_bytes: process.resourceUsage().maxRSS * 1024 };
}

module.exports = { exitError, programOf, usageSince };

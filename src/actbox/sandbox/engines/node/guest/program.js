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

// Give a program its variables, and go to the folder that it starts in; return what it came to where that cannot be.
function setOut({ env, cwd }, evaluator) {
  Object.assign(process.env, env);
  if (cwd === undefined) return undefined;
  try {
    process.chdir(cwd);
  } catch (error) {
    const message = `cannot start in ${cwd}: ${error.message.replace(/, chdir.*/s, "")}`;
    return { exit: 126, error: { kind: "RUNTIME", type: "Error", message } };
  }
  evaluator.folder = cwd;
  return undefined;
}

function exitError(code) {
  return { kind: "EXIT", message: `the program ended itself with exit code ${code}` };
}

// What the process has used since a `process.cpuUsage()`.
function usageSince(before) {
  const { user, system } = process.cpuUsage(before);
  return { cpu_ms: (user + system) / 1000, max_rss_bytes: process.resourceUsage().maxRSS * 1024 };
}

module.exports = { exitError, programOf, setOut, usageSince };

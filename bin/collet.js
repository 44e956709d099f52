#!/usr/bin/env node
// Plain old JavaScript, so that an old Node can say what is wrong instead of failing on syntax.
const oldest = 24
if (Number(process.versions.node.split('.')[0]) < oldest) {
  process.stderr.write(`collet needs Node ${oldest} or newer; this is Node ${process.versions.node}.\n`)
  process.exit(2)
}

// SQLite is part of what we rely on and test; its notice helps nobody. Every other warning stays.
const emitWarning = process.emitWarning
process.emitWarning = function emit(warning, ...details) {
  const text = warning instanceof Error ? warning.message : String(warning)
  if (!text.startsWith('SQLite is an experimental feature')) emitWarning.call(process, warning, ...details)
}

// Code that Node compiled once is read from there at the next start. In the user's own folder: what lies in one that others
// can write to could be anybody's code. NODE_COMPILE_CACHE names another, NODE_DISABLE_COMPILE_CACHE=1 leaves it alone.
const { join } = process.getBuiltinModule('node:path')
const { homedir } = process.getBuiltinModule('node:os')
const { enableCompileCache } = process.getBuiltinModule('node:module')
try {
  enableCompileCache(process.env.NODE_COMPILE_CACHE || join(homedir(), '.cache', 'collet', 'compiled'))
} catch {
  // Without a home there is nothing to keep it in.
}

import('../dist/cli/main.js').catch((error) => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(3)
})

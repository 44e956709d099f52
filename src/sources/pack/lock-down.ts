import { createRequire, syncBuiltinESMExports } from 'node:module'

/** Functions that reach other processes, and Node's permission model does not ask about. */
const OF_PROCESS = [
  'kill',
  '_kill',
  '_debugProcess',
  '_debugEnd',
  'binding',
  '_linkedBinding',
  'execve',
] as const
/** `setFlagsFromString` would lift the cap of the heap, `setPriority` slow down the server. */
const OF_MODULES = [
  ['node:os', ['setPriority']],
  ['node:v8', ['setFlagsFromString']],
] as const

/**
 * Takes away what pack code must not find in its process, before any of it is loaded. It is a second wall, not the first: the
 * server answers no debugging signal, files and programs are Node's permission model, and where bubblewrap is there, no other
 * process can be seen at all.
 */
export function lockDown({ mayStartPrograms }: { readonly mayStartPrograms: boolean }): void {
  const load = createRequire(import.meta.url)
  for (const name of OF_PROCESS) Reflect.deleteProperty(process, name)
  for (const [module, names] of OF_MODULES) {
    for (const name of names) takeAway(load(module), name)
  }
  if (!mayStartPrograms) {
    // Not only what starts programs: a `ChildProcess` that was never started sends signals to whatever pid its memory holds.
    const programs: object = load('node:child_process')
    for (const name of Object.keys(programs)) takeAway(programs, name)
  }
  // `import { kill } from 'node:process'` sees the same.
  syncBuiltinESMExports()
}

function takeAway(module: object, name: string): void {
  Reflect.defineProperty(module, name, {
    value: () => {
      throw Object.assign(new Error(`${name} is not there for packs.`), { code: 'ERR_ACCESS_DENIED' })
    },
    enumerable: true,
  })
}

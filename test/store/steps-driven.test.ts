import { describe, expect, it } from 'vitest'
import { readSourceFiles, resolveImport } from '../source-files.ts'

/** Functions of engine.ts that query the database without being generators. */
const STATEMENTS = ['get', 'all', 'write']
/** Functions that take steps, or a function that returns them, and drive them to their end. */
const DRIVERS = 'drive|driveEach|read|run|snapshot|walk|exclusive|lane|mapped|statementOf|submit'
const DRIVEN = new RegExp(
  `(?:\\byield\\*\\s*|\\b(?:${DRIVERS})\\(\\s*|\\b(?:${DRIVERS})\\((?:[^;]*[(,])?\\s*\\([^()]*\\)\\s*=>\\s*|\\bfunction\\*\\s+|\\basync\\s+|^\\s*\\*)$`,
)

interface Module {
  readonly path: string
  readonly text: string
}

/** Removes comments and strings; values in a template are not checked, and contain no steps. */
function codeOf(text: string): string {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '')
    .replaceAll(/`(?:[^`\\]|\\.)*`|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"/g, "''")
}

/** Async generators are not steps: their callers iterate them. */
function generatorsIn({ text }: Module): readonly string[] {
  return [...text.matchAll(/(?<!\basync )\bfunction\*\s+(\w+)/g)].map(([, name = '']) => name)
}

/** Names that return steps when called in this module: its own generators, imported ones, and its statements. */
function stepNames(module: Module, all: ReadonlyMap<string, Module>): ReadonlySet<string> {
  const names = new Set(generatorsIn(module))
  for (const [, items = '', specifier = ''] of module.text.matchAll(/^import \{([^}]*)\} from '([^']+)'/gm)) {
    const from = all.get(resolveImport(module.path, specifier) ?? '')
    if (from === undefined) continue
    const given = new Set(from.path === 'src/kernel/store/engine.ts' ? STATEMENTS : generatorsIn(from))
    for (const item of items.split(',').map((one) => one.trim())) if (given.has(item)) names.add(item)
  }
  for (const [, items = ''] of module.text.matchAll(/^const \{([^}]*)\} = statements</gm))
    for (const item of items.split(',')) names.add((item.split(':').at(-1) ?? '').trim())
  return names
}

/** Calls of generators that are not driven: they compile, look right and do nothing. */
function undriven(module: Module, all: ReadonlyMap<string, Module>): readonly string[] {
  const code = codeOf(module.text)
  const names = stepNames(module, all)
  const methods = new Set([...code.matchAll(/^ {2}\*(#?\w+)\(/gm)].map(([, name = '']) => name))
  return [...code.matchAll(/(?<![\w.#$])(\w+)\(|(?<receiver>[\w.]+)\.(?<method>#?\w+)\(/g)].flatMap(
    (call) => {
      const name = call[1] ?? call.groups?.method ?? ''
      if (!(call[1] === undefined ? methods : names).has(name)) return []
      return DRIVEN.test(code.slice(0, call.index)) ? [] : [`${module.path}: ${name}`]
    },
  )
}

const modules = readSourceFiles('src/{kernel/store,store}/**/*.ts').filter(
  ({ path }) => !path.endsWith('.test.ts'),
)
const byPath = new Map<string, Module>(modules.map((module) => [module.path, module]))

/** A module with this body, in addition to the existing ones. */
function planted(body: string): Module {
  const imports = `import { appendFact, openRun } from './runs.ts'\nimport { all, get, write } from '#kernel/store/engine'\n`
  return { path: 'src/kernel/store/calls/planted.ts', text: `${imports}function* own() {}\n${body}\n` }
}

describe('steps', () => {
  it('are driven wherever they are created', () => {
    expect(modules.length).toBeGreaterThan(25)
    expect(modules.flatMap((module) => undriven(module, byPath))).toEqual([])
  })

  it.each([
    ['a condition that is always true', 'function* f() { if (!openRun(scope, 1)) return }'],
    ['a separate statement', 'function* f() { appendFact(run, fact) }'],
    ['a loop over rows', 'function* f() { rows.forEach((row) => write("deleteCall", row)) }'],
    ['a value that is never undefined', 'function* f() { return get("findCall", record) === undefined }'],
    ['a generator of the module itself', 'function* f() { own() }'],
    ['a method', 'class Walk {\n  *step() {}\n  go() { this.step() }\n}'],
  ])('are found where they are not driven: %s', (_what, body) => {
    expect(undriven(planted(body), byPath)).toHaveLength(1)
  })

  it.each([
    'function* f() { if (!(yield* openRun(scope, 1))) return yield* own() }',
    'const port = { find: read((record: string) => get("findCall", record)), list: snapshot(own) }',
    'queue.submit(key, (group) => own())',
    'const found = engine.read(get("findCall", record))',
  ])('are accepted where they are driven: %s', (body) => {
    expect(undriven(planted(body), byPath)).toEqual([])
  })
})

import { describe, expect, it } from 'vitest'
import { readSourceFile, resolveImport, runtimeImports } from '../source-files.ts'

/** The modules that the client may need; `documentOf` and names are for servers. */
const ENTRIES = ['document-read', 'document-references', 'document', 'to-json-schema', 'convert-from-json']

/** Every module that the files import, directly or not, and their external imports. */
function reach(entries: readonly string[]): {
  readonly files: ReadonlySet<string>
  readonly foreign: readonly string[]
} {
  const files = new Set<string>()
  const foreign: string[] = []
  const open = [...entries]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (files.has(path)) continue
    files.add(path)
    for (const specifier of runtimeImports(readSourceFile(path))) {
      const target = resolveImport(path, specifier)
      if (target === undefined) foreign.push(`${path} imports ${specifier}`)
      else open.push(target)
    }
  }
  return { files, foreign }
}

describe('OpenTool documents in a browser', () => {
  it('need no built-in module and no package', () => {
    const { files, foreign } = reach(ENTRIES.map((name) => `src/protocols/opentool/codec-${name}.ts`))
    expect([...files]).toContain('src/kernel/base/json.ts')
    expect(foreign).toEqual([])
  })
})

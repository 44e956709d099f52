import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'

/** Type imports are left out, because they do not exist at run time. */
const IMPORT = /(?:import|export)\s(?!type\s)(?:[^'";]*?\sfrom\s)?'([^']+)'|import\(\s*'([^']+)'\s*\)/g

/** Every module that `entry` reaches, with the specifiers that it imports. */
function importGraph(entry: string): ReadonlyMap<string, readonly string[]> {
  const graph = new Map<string, readonly string[]>()
  const open = [entry]
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (graph.has(file)) continue
    const source = readFileSync(file, 'utf8')
    const asked = [...source.matchAll(IMPORT)].map((match) => match[1] ?? match[2] ?? '')
    graph.set(file, asked)
    for (const specifier of asked) {
      if (specifier.startsWith('#')) open.push(join('src', `${specifier.slice(1)}.ts`))
      else if (specifier.startsWith('.')) open.push(join(dirname(file), specifier))
    }
  }
  return graph
}

describe('the import graph of collet/client', () => {
  const graph = importGraph('src/client/index.ts')

  it('is not empty', () => {
    expect([...graph.keys()]).toEqual(
      expect.arrayContaining([
        'src/client/call.ts',
        'src/protocols/otc/codec-client-reply.ts',
        'src/kernel/base/json.ts',
      ]),
    )
  })

  it('has no node: module and no package in it', () => {
    const foreign = [...graph].flatMap(([file, asked]) =>
      asked
        .filter((specifier) => !/^[.#]/.test(specifier))
        .map((specifier) => `${file} imports ${specifier}`),
    )
    expect(foreign).toEqual([])
  })

  it('stays within client, kernel, schema and the codecs of protocols', () => {
    const allowed =
      /^src\/(?:client\/|kernel\/|schema\/|protocols\/(?:json-rpc|call-wire|[^/]+\/(?:wire|codec)))/
    expect([...graph.keys()].filter((file) => !allowed.test(file))).toEqual([])
  })

  it('uses no global that only Node.js has', () => {
    const nodeOnly = /\b(?:process|Buffer|global|require|setImmediate)(?:\.[a-z]|\()/
    expect([...graph.keys()].filter((file) => nodeOnly.test(readFileSync(file, 'utf8')))).toEqual([])
  })
})

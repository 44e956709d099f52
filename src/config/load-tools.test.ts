import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { describeProblem, loadConfig, parseConfig } from './load.ts'
import { loadTools } from './load-tools.ts'

describe('loadTools', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
    write('package.json', '{"type":"module"}')
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  function write(name: string, text: string): string {
    const file = join(folder, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    return file
  }

  /** Source of a tool, as `tool()` marks it. */
  function source(id: string): string {
    return `{ [Symbol.for('collet.tool')]: true, id: '${id}', description: 'D.', input: { type: 'object' }, output: {}, run: () => null }`
  }

  async function load(...tools: unknown[]) {
    const file = join(folder, 'collet.config.ts')
    const { tools: found, problems } = await loadTools({ file, folder, config: parseConfig({ tools }, file) })
    return { ids: found.map(({ id }) => id), problems: problems.map(describeProblem) }
  }

  it('rule 21: the hash of a definition covers its file', async () => {
    const hashesOf = async (entry: string) => {
      const file = join(folder, 'collet.config.ts')
      const config = parseConfig({ tools: [entry] }, file)
      return (await loadTools({ file, folder, config })).tools.map(({ definitionHash }) => definitionHash)
    }
    write('one.ts', `export default ${source('A.One@1.0.0')}`)
    write('two.ts', `export default ${source('A.One@1.0.0')} // does something else`)
    write('three.ts', `export default ${source('A.One@1.0.0')}`)
    const [one, two, three] = [await hashesOf('one.ts'), await hashesOf('two.ts'), await hashesOf('three.ts')]
    expect(one).toEqual(three)
    expect(one).not.toEqual(two)
  })

  it('rule 21: the hash of a tool in the config file covers only its functions', async () => {
    const hashOf = async (rest: string, run: () => string) => {
      const file = write('collet.config.ts', rest)
      const one = tool({ id: 'A.One@1.0.0', description: 'D.', input: {}, output: { type: 'string' }, run })
      const config = parseConfig({ tools: [one] }, file)
      return (await loadTools({ file, folder, config })).tools.map(({ definitionHash }) => definitionHash)
    }
    const before = await hashOf('// a', () => 'paid')
    expect(await hashOf('// egress: { allow: [] }', () => 'paid')).toEqual(before)
    expect(await hashOf('// a', () => 'paid twice')).not.toEqual(before)
  })

  it('rule 21: refuses an old version that is less strict than a newer one, unless that is acknowledged', async () => {
    const strict = source('A.One@2.0.0').replace('run:', "policy: { approval: 'always' }, run:")
    write('tools.ts', `export default [${source('A.One@1.0.0')}, ${strict}]`)
    const { ids, problems } = await load('./tools.ts')
    expect(ids).toEqual([])
    expect(problems).toEqual([expect.stringContaining('Is laxer than A.One@2.0.0')])
    const file = join(folder, 'collet.config.ts')
    const config = parseConfig({ tools: ['./tools.ts'], acknowledgeLaxerVersions: ['A.One@1.0.0'] }, file)
    expect((await loadTools({ file, folder, config })).tools).toHaveLength(2)
  })

  it('keeps the order of the config and of lists, and sorts files and exports by name', async () => {
    write('tools/b.ts', `export const z = ${source('B.Z@1.0.0')}; export const a = ${source('B.A@1.0.0')}`)
    write('tools/a.ts', `export default [${source('A.One@1.0.0')}, ${source('A.Two@1.0.0')}]`)
    write('tools/a.test.ts', `throw new Error('a test is no tool file')`)
    write('tools/a.d.ts', '')
    const value = tool({
      id: 'V.V@1.0.0',
      description: 'D.',
      input: { type: 'object' },
      output: {},
      run: () => null,
    })
    const { ids, problems } = await load(value, './tools/{b,a}*.ts')
    expect(problems).toEqual([])
    expect(ids).toEqual(['V.V@1.0.0', 'A.One@1.0.0', 'A.Two@1.0.0', 'B.A@1.0.0', 'B.Z@1.0.0'])
  })

  it('loads a tool once, however often it is exported', async () => {
    write(
      'tools/a.ts',
      `export const one = ${source('A.One@1.0.0')}; export default one; export const all = [one]`,
    )
    expect(await load('./tools/a.ts', './tools/*.ts')).toEqual({ ids: ['A.One@1.0.0'], problems: [] })
  })

  it('OTC-24: names both files of a duplicate id', async () => {
    const first = write('tools/a.ts', `export const one = ${source('A.One@1.0.0')}`)
    const second = write('tools/b.ts', `export const one = ${source('A.One@1.0.0')}`)
    const { problems } = await load('./tools/*.ts')
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(first)
    expect(problems[0]).toContain(second)
  })

  it('continues after a bad file and reports every problem', async () => {
    write('tools/a.ts', `throw new Error('no network')`)
    write('tools/b.ts', `export const one = { id: 'B.One@1.0.0', run: () => null }`)
    write('tools/c.ts', `export const one = ${source('not an id')}`)
    const { ids, problems } = await load('./tools/*.ts', './tool/*.ts', 42, [1])
    expect(ids).toEqual([])
    const text = problems.join('\n')
    expect(text).toContain('tools/a.ts')
    expect(text).toContain('no network')
    expect(text).toContain('one: looks like a tool, but was not made by tool()')
    expect(text).toContain('not an id')
    expect(text).toContain('tools[1]: "./tool/*.ts" matches no file')
    expect(text).toContain('tools[2]: expected a tool made by tool(), or a path or glob')
    expect(text).toContain('tools[3]: is a list. Spread it')
  })

  it('warns about a file without tools', async () => {
    const file = write('tools/shared.ts', 'export const x = 1')
    write('tools/a.ts', `export const one = ${source('A.One@1.0.0')}`)
    const { ids, problems } = await load('./tools/*.ts')
    expect(ids).toEqual(['A.One@1.0.0'])
    expect(problems).toEqual([
      `${file}: exports no tool. Export the result of tool({ … }), workflow({ … }), prompt({ … }) or resource({ … }).`,
    ])
  })
})

describe('loadConfig', () => {
  let folder = ''
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'collet-'))
  })
  afterEach(() => rmSync(folder, { recursive: true }))

  function write(name: string, text: string): string {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }

  it('reads JSON and modules', async () => {
    const json = await loadConfig(write('collet.config.json', '{"server":{"port":1}}'))
    expect(json.config.server.port).toBe(1)
    expect(json.folder).toBe(folder)
    const module = await loadConfig(write('collet.config.mjs', 'export default { server: { port: 2 } }'))
    expect(module.config.server.port).toBe(2)
  })

  it('reports the problem of a file that is not a config', async () => {
    await expect(loadConfig(write('collet.config.json', '{'))).rejects.toThrow('is not JSON')
    await expect(loadConfig(write('collet.config.mjs', 'export const x = 1'))).rejects.toThrow(
      'exports no config. Write "export default defineConfig({ … })".',
    )
  })
})

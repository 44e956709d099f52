import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { prepareTools } from './prepare-tools.ts'

function definition(id: string, changes: Record<string, unknown> = {}) {
  return { id, description: 'd', input: {}, output: null, run: () => undefined, ...changes }
}

/** `file tool where: problem` of each finding, for definitions from `0.ts`, `1.ts` and so on. */
function findingsOf(...definitions: unknown[]): string[] {
  const result = prepareTools(definitions.map((each, index) => ({ definition: each, file: `${index}.ts` })))
  return result.ok
    ? []
    : result.findings.map(({ file, toolId, where, problem }) => `${file} ${toolId} ${where}: ${problem}`)
}

describe('prepareTools', () => {
  it('OTC-29, T-22: keeps the order of the definitions, with every version', () => {
    const ids = ['A.B@1.10.0', 'C.D@1.0.0', 'A.B@1.9.0', 'A.B@1.0.0']
    const result = prepareTools(ids.map((id) => ({ definition: definition(id) })))
    expect(result.ok && result.tools.map(({ id }) => id)).toEqual(ids)
    expect(prepareTools([])).toEqual({ ok: true, tools: [] })
  })

  it('OTC-24: refuses a duplicate id, and names the file of the first', () => {
    expect(findingsOf(definition('A.B@1.0.0'), definition('A.C@1.0.0'), definition('A.B@1.0.0'))).toEqual([
      '2.ts A.B@1.0.0 id: This version is already defined in 0.ts, as "A.B@1.0.0".',
    ])
  })

  it.each(['01.0.0', '1.00.0', '1.0.01', `${'1'.repeat(16)}.0.0`, `1.0.${'9'.repeat(20)}`])(
    'T-10: refuses the version %s, which is not a semantic version',
    (version) => {
      expect(findingsOf(definition(`A.B@${version}`))).toEqual([
        `0.ts A.B@${version} id: Is "A.B@${version}", whose version is not a semantic version.`,
      ])
    },
  )

  it('T-10: accepts numbers of up to 15 digits, and zeros', () => {
    expect(findingsOf(definition('A.B@0.0.0'), definition(`A.B@${'9'.repeat(15)}.10.100`))).toEqual([])
  })

  it('T-11: ids are case-sensitive', () => {
    expect(findingsOf(definition('A.B@1.0.0'), definition('A.b@1.0.0'))).toEqual([])
  })

  it('requires one catalog id for all versions of a tool', () => {
    expect(findingsOf(definition('A.B@1.0.0'), definition('A.B@2.0.0', { catalogId: 'openwop:x' }))).toEqual([
      '1.ts A.B@2.0.0 catalogId: Is "openwop:x", but "A.B@1.0.0" has "openwop:A.B".',
    ])
  })

  const namesOf = (...definitions: unknown[]) => {
    const result = prepareTools(definitions.map((each) => ({ definition: each })))
    return result.ok ? result.tools.map(({ name, writtenName }) => [name, writtenName]) : result.findings
  }

  it('two toolkits may have tools with the same name: each is called by toolkit and name', () => {
    const [add, other] = [
      definition('Calc.Add@1.0.0', { name: 'Add' }),
      definition('List.Add@1.0.0', { name: 'Add' }),
    ]
    expect(namesOf(add, other, definition('Calc.Sub@1.0.0', { name: 'Sub' }))).toEqual([
      ['Calc_Add', 'Add'],
      ['List_Add', 'Add'],
      ['Sub', undefined],
    ])
  })

  it('two versions of a tool may have different names: both are called by toolkit and name', () => {
    expect(namesOf(definition('A.B@1.0.0'), definition('A.B@2.0.0', { name: 'x' }))).toEqual([
      ['A_B', undefined],
      ['A_B', 'x'],
    ])
  })

  it('rule 5: a tool with the same name does not change what a claim pins', () => {
    const hashOf = (...more: unknown[]) => {
      const result = prepareTools(
        [definition('Calc.Add@1.0.0', { name: 'Add' }), ...more].map((each) => ({ definition: each })),
      )
      return result.ok ? result.tools[0]?.definitionHash : undefined
    }
    expect(hashOf()).toMatch(/./)
    expect(hashOf(definition('List.Add@1.0.0', { name: 'Add' }))).toBe(hashOf())
  })

  it('refuses a name that is the function name of another tool', () => {
    expect(findingsOf(definition('A.B@1.0.0', { name: 'C_D' }), definition('C.D@1.0.0'))).toEqual([
      '0.ts A.B@1.0.0 name: "C_D" already belongs to "C.D@1.0.0".',
    ])
    const add = (id: string) => definition(id, { name: 'Add' })
    expect(
      findingsOf(add('Calc.Add@1.0.0'), add('List.Add@1.0.0'), definition('X.Y@1.0.0', { name: 'Calc_Add' })),
    ).toEqual(['2.ts X.Y@1.0.0 name: "Calc_Add" already belongs to "Calc.Add@1.0.0".'])
  })

  it('refuses a name or catalog id that another tool has', () => {
    expect(findingsOf(definition('A_B.C@1.0.0'), definition('A.B_C@1.0.0'))).toEqual([
      '1.ts A.B_C@1.0.0 name: "A_B_C" already belongs to "A_B.C@1.0.0".',
    ])
    expect(
      findingsOf(definition('A.B@1.0.0'), definition('A.C@1.0.0', { catalogId: 'openwop:A.B' })),
    ).toEqual(['1.ts A.C@1.0.0 catalogId: "openwop:A.B" already belongs to "A.B@1.0.0".'])
  })

  it('returns the findings of all tools, and compares names of tools that have findings', () => {
    expect(
      findingsOf(definition('A.B@1.0.0', { description: '' }), definition('A.B@1.0.0', { run: 1 }), null),
    ).toEqual([
      expect.stringContaining('0.ts A.B@1.0.0 description'),
      expect.stringContaining('1.ts A.B@1.0.0 run'),
      expect.stringContaining('2.ts (no id) tool'),
      expect.stringContaining('1.ts A.B@1.0.0 id: This version is already defined in 0.ts'),
    ])
  })

  it.each([
    ['JSON Schema', PLAIN],
    ['a library', z.object({ a: z.number().describe('A.') })],
  ])('prepares a tool and checks its first input in less than a millisecond: %s', (_how, input) => {
    const definitions = Array.from({ length: 300 }, (_, index) => ({
      definition: definition(`Kit.Tool${index}@1.0.0`, { input, output: { type: 'number' } }),
    }))
    const toolsOf = () => {
      const result = prepareTools(definitions)
      return result.ok ? result.tools : []
    }
    expect(toolsOf()).toHaveLength(300)
    let tools = toolsOf()
    const preparing = cpuMsOf(() => {
      tools = toolsOf()
    })
    const calling = cpuMsOf(() => {
      for (const { checkInput } of tools) checkInput({ a: 1, b: 'b' })
    })
    expect(Math.max(preparing, calling) / tools.length).toBeLessThan(1)
  })
})

const PLAIN = {
  type: 'object',
  properties: { a: { type: 'number', description: 'A.' }, b: { type: 'string', description: 'B.' } },
  required: ['a', 'b'],
}

function cpuMsOf(run: () => void): number {
  const before = process.cpuUsage()
  run()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jsonConfigSchema, readJsonConfig } from './json-config.ts'

const VARIABLES = { TOKEN: 'secret', EMPTY: '' }
const place = (inside: string) => `\${${inside}}`

function read(value: unknown) {
  return readJsonConfig(JSON.stringify(value), VARIABLES)
}

describe('a JSON config', () => {
  it('contains the values of named environment variables, also inside strings, lists and objects', () => {
    const written = { a: place('env:TOKEN'), b: [{ c: `Bearer ${place('env:TOKEN')}!` }], d: 1, e: null }
    expect(read(written)).toEqual({
      config: { a: 'secret', b: [{ c: 'Bearer secret!' }], d: 1, e: null },
      problems: [],
    })
  })

  it.each(['NOT_SET', 'EMPTY'])('uses the default for %s, which may be empty', (name) => {
    const { config, problems } = read([place(`env:${name}:-x:y`), place(`env:${name}:-`)])
    expect([config, problems]).toEqual([['x:y', ''], []])
  })

  it('names every unset variable with its place, and never a value', () => {
    const { problems } = read({ auth: { apiKeys: [{ key: place('env:A') }] }, b: place('env:B') })
    expect(problems.map(({ where }) => where)).toEqual(['auth.apiKeys[0].key', 'b'])
    expect(problems[0]?.message).toContain('variable A is not set')
    expect(problems[0]?.message).toContain(place('env:A:-TEXT'))
  })

  it.each(['input:token', 'ENV:A', 'env:1A', 'TOKEN', ''])(
    'reports that "%s" is not a placeholder',
    (inside) => {
      expect(read({ a: place(inside) }).problems[0]?.message).toContain('is not a placeholder')
    },
  )

  it('reads $${ as a literal ${, and does not expand the value of a variable', () => {
    const { config } = readJsonConfig(JSON.stringify([`$${place('x')}`, place('env:A')]), {
      A: place('env:B'),
    })
    expect(config).toEqual([place('x'), place('env:B')])
  })

  it('is otherwise the value in the file', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        fc.pre(!JSON.stringify(value).includes('${') && !JSON.stringify(value).includes('$schema'))
        expect(read(value)).toEqual({ config: JSON.parse(JSON.stringify(value)), problems: [] })
      }),
    )
  })

  it('converts variables to numbers and booleans where the config expects them', () => {
    const written = {
      server: { port: place('env:PORT'), host: place('env:PORT') },
      auth: { required: place('env:YES'), apiKeys: [{ id: 'a', key: place('env:PORT') }] },
    }
    const { config } = readJsonConfig(JSON.stringify(written), { PORT: '4200', YES: 'true' })
    expect(config).toEqual({
      server: { port: 4200, host: '4200' },
      auth: { required: true, apiKeys: [{ id: 'a', key: '4200' }] },
    })
    const invalid = readJsonConfig(JSON.stringify(written), { PORT: 'many', YES: 'maybe' }).config
    expect(invalid).toMatchObject({ server: { port: 'many' }, auth: { required: 'maybe' } })
  })

  it('may name its schema', () => {
    expect(read({ $schema: './schema.json', server: {} }).config).toEqual({ server: {} })
  })
})

describe('the schema for editors', () => {
  const schema = jsonConfigSchema((setting) => `about ${setting}`)
  const isValid = new Ajv2020({ strict: false, validateFormats: false }).compile(schema)

  it('accepts every valid config, and no unknown key', () => {
    const config = { $schema: 'x', tools: ['./t.ts'], server: { port: 1 }, sources: {} }
    expect([isValid(config), isValid.errors]).toEqual([true, null])
    expect(isValid({ serve: {} })).toBe(false)
    expect(isValid({ server: { port: '1' } })).toBe(false)
    expect(isValid({ sources: { A: { type: 'mcp', url: 'http://a.test', nonsense: 1 } } })).toBe(false)
  })

  it('describes each setting, and omits settings that only code can have', () => {
    const text = JSON.stringify(schema)
    expect(text).toContain('about server.tls.cert')
    expect(text).toContain('about auth.apiKeys.roles')
    expect(schema.properties).not.toHaveProperty('hooks')
    expect(text).not.toContain('approvals.when')
  })
})

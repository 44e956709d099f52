import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { defineCommand, EXIT, parseArguments } from './command.ts'

const command = defineCommand<'config' | 'port' | 'watch' | 'head' | 'as'>({
  name: 'try',
  summary: 'For this test.',
  positionals: [
    { name: 'TOOL', help: 'The tool.' },
    { name: 'JSON|-', optional: true, help: 'The input.' },
  ],
  options: {
    config: { value: 'F', help: '' },
    port: { value: 'N', help: '' },
    as: { value: 'A', help: '' },
    watch: { help: '' },
    head: { value: 'H', many: true, help: '' },
  },
  examples: [],
  run: async () => EXIT.ok,
})

const parse = (...argv: string[]) => parseArguments(command, argv).args

describe('parseArguments', () => {
  it('reads words, values and flags in any order', () => {
    const args = parse('--port', '80', 'T', '--watch', '-', '--config=a b.ts')
    expect(args.positionals).toEqual(['T', '-'])
    expect(args.text('config')).toBe('a b.ts')
    expect(args.integer('port', { min: 0, max: 99 })).toBe(80)
    expect(args.flag('watch')).toBe(true)
    expect(args.flag('head')).toBe(false)
  })

  it('suggests the option that was meant', () => {
    expect(() => parse('T', '--prot', '1')).toThrow('Unknown option --prot. Did you mean "--port"?')
    expect(() => parse('T', '--banana')).toThrow(/^Unknown option --banana\.$/)
    expect(() => parse('T', 'x', '-prot')).toThrow('does not take "-prot". Did you mean "--port"?')
  })

  it('reports missing, surplus and repeated values', () => {
    expect(() => parse('T', '--config', '--watch')).toThrow('--config needs a value: --config F.')
    expect(() => parse('T', '--config')).toThrow('--config needs a value')
    expect(() => parse('T', '--config=')).toThrow('--config needs a value')
    expect(() => parse('T', '--watch=yes')).toThrow('--watch takes no value.')
    expect(() => parse('T', '--port', '1', '--port', '2')).toThrow('--port is given twice.')
    expect(parse('T', '--head', 'a', '--head', 'b').texts('head')).toEqual(['a', 'b'])
  })

  it('accepts arguments that begin with a dash, as records do', () => {
    expect(parse('-Xyz', '--as', '-abc').positionals).toEqual(['-Xyz'])
    expect(parse('-Xyz', '--as', '-abc').text('as')).toBe('-abc')
    expect(parse('T', '--', '--watch').positionals).toEqual(['T', '--watch'])
  })

  it('names the missing or surplus argument', () => {
    expect(() => parse()).toThrow('collet try needs TOOL: The tool.')
    expect(() => parse('T', '{}', 'x')).toThrow('collet try does not take "x".')
  })

  it('requires no arguments with --help', () => {
    expect(parseArguments(command, ['--help']).help).toBe(true)
    expect(parseArguments(command, ['-h', '--json'])).toMatchObject({ help: true, json: true })
  })

  it('checks numbers and choices when they are read', () => {
    for (const text of ['x', '1.5', '70000', '-1', '1e3', ' 1']) {
      expect(() => parse('T', `--port=${text}`).integer('port', { min: 0, max: 65_535 }), text).toThrow(
        '--port expects a whole number from 0 to 65535',
      )
    }
    expect(() => parse('T', '--as', 'dead').oneOf('as', ['alive', 'gone'])).toThrow(
      '--as expects one of alive, gone',
    )
    expect(parse('T', '--as', 'gone').oneOf('as', ['alive', 'gone'])).toBe('gone')
  })

  it('returns any value written with =', () => {
    const text = fc.string({ minLength: 1 }).filter((value) => !value.includes('\0'))
    fc.assert(
      fc.property(text, (value) => {
        expect(parse('T', `--config=${value}`).text('config')).toBe(value)
      }),
    )
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ArgvPart, BadArgument, expandArgv, exposedParameters, problemsOfArgv } from './argv-template.ts'

describe('a command line with parameters', () => {
  it.each<[string, readonly ArgvPart[], Parameters<typeof expandArgv>[1], readonly string[]]>([
    ['a whole element', ['cat', '{file}'], { file: 'a b;c' }, ['cat', 'a b;c']],
    ['a prefix', ['x', '--name={name}'], { name: '-rf /' }, ['x', '--name=-rf /']],
    ['a number and a boolean', ['x', '{n}', '{b}'], { n: 1.5, b: false }, ['x', '1.5', 'false']],
    ['a list as several elements', ['x', '{files}'], { files: ['a', 'b'] }, ['x', 'a', 'b']],
    ['a prefix for each item of a list', ['x', '--tag={t}'], { t: ['a', 'b'] }, ['x', '--tag=a', '--tag=b']],
    ['a group for each item of a list', ['x', ['-e', '{t}']], { t: ['a', 'b'] }, ['x', '-e', 'a', '-e', 'b']],
    ['nothing for an absent parameter', ['x', '--n={n}', ['-m', '{m}'], '{o}'], { n: null }, ['x']],
    ['a flag that is true', ['x', { flag: '-v', when: 'v' }], { v: true }, ['x', '-v']],
    ['a flag that is not true', ['x', { flag: '-v', when: 'v' }], { v: 'true' }, ['x']],
    ['an object as JSON', ['x', '{o}'], { o: { a: [1] } }, ['x', '{"a":[1]}']],
    [
      'braces that are not placeholders',
      ['awk', '{print $1}', '{}', '{{name}}'],
      { name: 1 },
      ['awk', '{print $1}', '{}', '{name}'],
    ],
    ['an operand after --', ['x', '--', '{o}'], { o: '-rf' }, ['x', '--', '-rf']],
  ])('has %s', (_title, argv, input, expected) => {
    expect(problemsOfArgv(argv)).toEqual([])
    expect(expandArgv(argv, input)).toEqual(expected)
  })

  it.each<[string, readonly ArgvPart[]]>([
    ['a program from a parameter', ['{program}']],
    ['a flag as its program', [{ flag: '-v', when: 'v' }]],
    ['two parameters in one element', ['x', '{a}{b}']],
    ['text after a parameter', ['x', '{a}.txt']],
    ['an option whose name continues in the value', ['x', '--out{a}']],
    ['a short option joined to its value', ['x', '-o{a}']],
    ['a dash in front of a value', ['x', '-{a}']],
    ['a group without a parameter', ['x', ['-a', '-b']]],
    ['a group with two parameters', ['x', ['{a}', '{b}']]],
    ['a NUL', ['x', 'a\0b']],
  ])('refuses %s', (_title, argv) => {
    expect(problemsOfArgv(argv)).not.toEqual([])
  })

  it('OWP-87: every value stays one argument and never becomes an option', () => {
    const argv: readonly ArgvPart[] = ['x', '{a}', '--k={a}', ['-n', '{a}'], '--', '{b}']
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const isRefused = a.startsWith('-') || a.includes('\0') || b.includes('\0')
        if (isRefused) expect(() => expandArgv(argv, { a, b })).toThrow(BadArgument)
        else expect(expandArgv(argv, { a, b })).toEqual(['x', a, `--k=${a}`, '-n', a, '--', b])
      }),
    )
  })

  it('finds the parameters that could become options', () => {
    expect([...exposedParameters(['x', '{a}', '--b={b}', ['-c', '{c}'], '--', '{d}'])]).toEqual(['a', 'c'])
  })

  it('ignores inherited members of the input', () => {
    expect(expandArgv(['x', '{constructor}'], {})).toEqual(['x'])
  })
})

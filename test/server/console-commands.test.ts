import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { importCommand, isCommand, looksLikeFile, quoted } from '../../console/src/app/commands.ts'

describe('a word of a command', () => {
  it.each([
    '$HOME and $(touch x)',
    '`id`',
    `it's "so", isn't it`,
    'two\nlines\n',
    '',
    'a\\b\\',
    '~/docs/*.json; rm -rf x & echo !! | cat > y',
    '=ls',
    'https://example.com/mcp?a=1&b=2#c',
    '\u2028 “Grüße”',
  ])('is the same to a shell: %j', (word) => {
    const seen = execFileSync('sh', ['-c', `printf '%s|' ${quoted(word)}`], { encoding: 'utf8' })
    expect(seen).toBe(`${word}|`)
  })

  it('is not quoted where it has no special characters', () => {
    for (const plain of ['Gmail.Send', 'key:ann', '30m', 'a=b', '--for', 'ann@example.com'])
      expect(quoted(plain)).toBe(plain)
    expect(quoted('=ls')).toBe("'=ls'")
    expect(quoted('Gmail.*')).toBe("'Gmail.*'")
  })

  it('is split from an imported command line as the server splits it', () => {
    expect(importCommand('https://example.com/mcp?a=1&b=2')).toBe(
      "collet import 'https://example.com/mcp?a=1&b=2'",
    )
    expect(importCommand('./api.yaml')).toBe('collet import ./api.yaml')
    expect(importCommand('file:///srv/api.yaml')).toBe('collet import /srv/api.yaml')
    expect(importCommand(`npx -y "my server" $(id) ~/docs; id`)).toBe(
      "collet import -- npx -y 'my server' '$(id)' '~/docs;' id",
    )
  })

  it('is distinguished from a file, and from a possible file name', () => {
    for (const file of ['file:///etc/passwd', './api.yaml']) expect(isCommand(file)).toBe(false)
    for (const path of ['/etc/passwd', './run', '../run', '~/run']) expect(looksLikeFile(path)).toBe(true)
    for (const other of ['npx -y server', '/usr/bin/node server.js', './api.yaml', 'https://a.example/b'])
      expect(looksLikeFile(other)).toBe(false)
  })
})

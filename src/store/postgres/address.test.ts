import { describe, expect, it } from 'vitest'
import {
  connectionAddress,
  directAddress,
  leaseOfAddress,
  problemOfAddress,
  shownAddress,
  unencryptedWarning,
} from './address.ts'

it.each([
  ['postgres://u:p@db.example/c', true],
  ['postgres://u:p@db.example/c?sslmode=disable', true],
  ['postgres://u:p@10.0.0.7/c', true],
  ['postgres://u:p@db.example/c?sslmode=require', false],
  ['postgres://u:p@db.example/c?sslmode=no-verify', false],
  ['postgres://u:p@localhost/c', false],
  ['postgres://u:p@127.0.0.1:5433/c', false],
  ['postgres://u:p@[::1]/c', false],
  ['postgres:///c?host=/run/postgresql', false],
  ['sqlite:x.db', false],
])('%s: a warning about plain text on the network: %s', (address, isWarned) => {
  const warning = unencryptedWarning(address)
  expect(warning !== undefined).toBe(isWarned)
  expect(warning ?? '').not.toContain('u:p')
})

describe('an address of PostgreSQL', () => {
  it.each([
    [
      'postgres://app:hunter2@db.example:5433/collet?sslmode=require',
      'postgres://app@db.example:5433/collet',
    ],
    ['postgresql://app:hunter2@db.example/collet', 'postgres://app@db.example/collet'],
    ['postgres://db/collet?user=app&password=hunter2', 'postgres://app@db/collet'],
    ['postgres://a%40b:hunter%402@[::1]:5432/my%20db', 'postgres://a@b@[::1]:5432/my db'],
    ['postgres:///collet?host=/run/postgresql', 'postgres:///run/postgresql/collet'],
    ['postgres://', 'postgres://'],
  ])('%s is shown without secrets', (address, shown) => {
    expect(problemOfAddress(address)).toBeUndefined()
    expect(shownAddress(address)).toBe(shown)
  })

  it.each([
    'postgres://app:hunter2@db:port/x',
    'postgres:app:hunter2@db/x',
    'postgres://app:hunter2@/x',
    'postgres://app:hunter2@db/x/y',
    'postgres://app:hunt#er2@db/x',
    'postgres://app:hunter2@db/x?options=-c%20fsync=off',
    'postgres://app@db/x?password=hunter2&password=hunter2',
    'postgres://app@db/x?sslmode=hunter2',
  ])('%s is refused with a message that does not repeat secrets', (address) => {
    const problem = problemOfAddress(address)
    expect(problem).toBeDefined()
    expect(problem).not.toContain('hunt')
    expect(shownAddress(address)).not.toContain('hunter2')
  })

  it('can name the database itself, behind a pooler', () => {
    const address = 'postgres://u:p@pooler:6432/d?sslmode=require&direct=db.example:5433'
    expect(problemOfAddress(address)).toBeUndefined()
    expect(directAddress(address)).toBe('postgres://u:p@db.example:5433/d?sslmode=verify-full')
    expect(connectionAddress(address)).toBe('postgres://u:p@pooler:6432/d?sslmode=verify-full')
    expect(directAddress('postgres://u:p@h/d')).toBeUndefined()
    for (const wrong of ['', 'a/b', 'u@h', 'h:x'])
      expect(problemOfAddress(`postgres://u@h/d?direct=${wrong}`), wrong).toContain('direct must be')
  })

  it('sets the length of a lease, within limits', () => {
    const leased = (value: string) => `postgres://u:p@pooler/d?lease=${value}&direct=db`
    expect(['5', '300'].map((value) => leaseOfAddress(leased(value)))).toEqual([5_000, 300_000])
    expect(leaseOfAddress('postgres://u@h/d')).toBe(10_000)
    expect(connectionAddress(leased('30'))).toBe('postgres://u:p@pooler/d')
    expect(directAddress(leased('30'))).toBe('postgres://u:p@db/d')
    for (const wrong of ['', '4', '301', '1e2', '10s', '-5'])
      expect(problemOfAddress(leased(wrong)), wrong).toContain(
        'lease must be a whole number of seconds from 5 to 300',
      )
  })

  it('uses TLS only with a verified certificate, unless a parameter turns that off', () => {
    const modeOf = (mode: string) =>
      URL.parse(connectionAddress(`postgres://u:p@h/d?sslmode=${mode}`))?.searchParams.get('sslmode')
    expect(['require', 'verify-ca', 'verify-full'].map(modeOf)).toEqual(Array(3).fill('verify-full'))
    expect(['disable', 'no-verify'].map(modeOf)).toEqual(['disable', 'no-verify'])
    expect(connectionAddress('postgres://u:p@h/d')).toBe('postgres://u:p@h/d')
  })
})

import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { statements } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { RowGuard, rowMac } from '#kernel/store/row-mac'
import { DEFINITION } from './collet-store.ts'
import { API_KEYS } from './keys.ts'

/** Queries on guarded tables whose rows are not checked when read, each with the reason. */
const UNCHECKED: Readonly<Record<string, string>> = {
  approvalRow: 'reads a row that was just written, to seal it',
  decisionRow: 'reads a row that was just written, to seal it',
  ownerRow: 'reads a row that was just written, to seal it',
  keyRow: 'reads a row that was just written, to seal it',
  pinRow: 'reads a row that was just written, to seal it',
  allApprovals: 'names every bad row: a check of the whole store',
  allDecisions: 'names every bad row: a check of the whole store',
  allOwners: 'names every bad row: a check of the whole store',
  allKeys: 'names every bad row: a check of the whole store',
  allPins: 'names every bad row: a check of the whole store',
  approvalsAfter: 'key rotation checks each row and re-seals only rows with a valid MAC',
  decisionsAfter: 'key rotation checks each row and re-seals only rows with a valid MAC',
  ownersAfter: 'key rotation checks each row and re-seals only rows with a valid MAC',
  keysAfter: 'key rotation checks each row and re-seals only rows with a valid MAC',
  allPinsAfter: 'key rotation checks each row and re-seals only rows with a valid MAC',
  pinsAfter: 'checked page by page where it is read',
}

const READ =
  /^SELECT (?:\w+\.)?\* FROM (?:calls \w+ JOIN )?(approvals|approval_decisions|key_owners|api_keys|pins)\b/
const { all, get } = statements<string>()
const { guarded } = DEFINITION
const READS = Object.entries(DEFINITION.queries).flatMap(([name, text]) => {
  const table = READ.exec(text)?.[1]
  return table === undefined ? [] : [{ name, table }]
})

describe('reads of rows that decide', () => {
  const keys = KeyRing.fresh({ current: randomBytes(32) })
  const FOREIGN = { id: 'x', mac: null }
  const refused = (name: string): boolean => {
    const found: string[] = []
    const ask = all(name)
    ask.answer = [FOREIGN]
    new RowGuard(keys, guarded, (row) => found.push(row)).check(ask)
    return ask.answer.length === 0 && found.length === 1
  }

  it('are all known here', () => {
    expect(READS.length).toBeGreaterThan(20)
    expect(Object.keys(UNCHECKED).filter((name) => READS.every((read) => read.name !== name))).toEqual([])
  })

  it.each(READS.filter(({ name }) => !(name in UNCHECKED)))(
    '$name leaves out a row of $table without our MAC, and fails where it is the only one asked for',
    ({ name, table }) => {
      expect(refused(name)).toBe(true)
      const ask = get(name)
      ask.answer = FOREIGN
      expect(() => new RowGuard(keys, guarded).check(ask)).toThrow(`${table} `)
    },
  )

  it.each(READS.filter(({ name }) => name in UNCHECKED))('$name: there is a reason', ({ name }) => {
    expect(refused(name)).toBe(false)
  })

  it('let through what carries the MAC of its own table, and nothing with that of another', () => {
    const row = { id: 'key-1', tenant: 'acme', name: 'agent' }
    const check = (mac: string): number => {
      const ask = all('keysOf')
      ask.answer = [{ ...row, mac }]
      new RowGuard(keys, guarded).check(ask)
      return ask.answer.length
    }
    expect(check(rowMac(keys.current, API_KEYS, row))).toBe(1)
    expect(check(rowMac(keys.current, { ...API_KEYS, table: 'key_owners' }, row))).toBe(0)
  })
})

import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { statements } from '#kernel/store/engine'
import { KeyRing } from '#kernel/store/key-ring'
import { RowGuard, rowMac } from '#kernel/store/row-mac'
import { DEFINITION } from './collet-store.ts'
import { API_KEYS } from './keys.ts'

/** Queries on guarded tables whose rows are not checked when they are read, each with the reason. */
const UNCHECKED: Readonly<Record<string, string>> = {
  'approvals row': 'reads a row that was just written, to seal it',
  'approval_decisions row': 'reads a row that was just written, to seal it',
  'key_owners row': 'reads a row that was just written, to seal it',
  'api_keys row': 'reads a row that was just written, to seal it',
  'pins row': 'reads a row that was just written, to seal it',
  'approvals all': 'names every bad row: a check of the whole store',
  'approval_decisions all': 'names every bad row: a check of the whole store',
  'key_owners all': 'names every bad row: a check of the whole store',
  'api_keys all': 'names every bad row: a check of the whole store',
  'pins all': 'names every bad row: a check of the whole store',
  'approvals page': 'key rotation checks each row and re-seals only rows with a valid MAC',
  'approval_decisions page': 'key rotation checks each row and re-seals only rows with a valid MAC',
  'key_owners page': 'key rotation checks each row and re-seals only rows with a valid MAC',
  'api_keys page': 'key rotation checks each row and re-seals only rows with a valid MAC',
  'pins page': 'key rotation checks each row and re-seals only rows with a valid MAC',
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

describe('reads of guarded rows', () => {
  const keys = KeyRing.fresh({ current: randomBytes(32) })
  const FOREIGN = { id: 'x', mac: null }
  const refused = (name: string): boolean => {
    const found: string[] = []
    const request = all(name)
    request.answer = [FOREIGN]
    new RowGuard(keys, guarded, (row) => found.push(row)).check(request)
    return request.answer.length === 0 && found.length === 1
  }

  it('are all listed here', () => {
    expect(READS.length).toBeGreaterThan(20)
    expect(Object.keys(UNCHECKED).filter((name) => READS.every((read) => read.name !== name))).toEqual([])
  })

  it.each(READS.filter(({ name }) => !(name in UNCHECKED)))(
    '$name leaves out a row of $table without a valid MAC in a list, and fails if it is the only row',
    ({ name, table }) => {
      expect(refused(name)).toBe(true)
      const request = get(name)
      request.answer = FOREIGN
      expect(() => new RowGuard(keys, guarded).check(request)).toThrow(`${table} `)
    },
  )

  it.each(READS.filter(({ name }) => name in UNCHECKED))(
    '$name is unchecked for a stated reason',
    ({ name }) => {
      expect(refused(name)).toBe(false)
    },
  )

  it('accept a MAC of the same table, and refuse a MAC of another table', () => {
    const row = { id: 'key-1', tenant: 'acme', name: 'agent' }
    const check = (mac: string): number => {
      const request = all('keysOf')
      request.answer = [{ ...row, mac }]
      new RowGuard(keys, guarded).check(request)
      return request.answer.length
    }
    expect(check(rowMac(keys.current, API_KEYS, row))).toBe(1)
    expect(check(rowMac(keys.current, { ...API_KEYS, table: 'key_owners' }, row))).toBe(0)
  })
})

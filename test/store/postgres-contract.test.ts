import { describe, it } from 'vitest'
import { STORE_CONTRACT } from '../contracts/store-contract.ts'
import { useDatabase } from './databases.ts'

const database = useDatabase('contract')

describe('a store in PostgreSQL', () => {
  for (const { name, run } of STORE_CONTRACT) it(name, () => run(() => database.open()))
})

import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './catalog.css'

export function CatalogPage(): ReactNode {
  useEcho('collet tools')
  return (
    <Page title="Catalog">
      <Empty title="The catalog comes here" />
    </Page>
  )
}

import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router'
import { lazyPart } from '../parts/lazy-part.tsx'
import { Frame, NoSuchPage, PageFailed } from './frame.tsx'
import { readSearch, writeSearch } from './search-state.ts'

/*
 * The addresses of the console and their pages. Used by `main.tsx`. A page is loaded when it is opened.
 */

const root = createRootRoute({
  component: Frame,
  notFoundComponent: NoSuchPage,
  errorComponent: PageFailed,
})

/** These pages need a sign-in even on an open server, which serves the catalog and Try it to everyone. */
const NEEDS_SIGN_IN = { needsSignIn: true }

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyPart(async () => (await import('../places/start/page.tsx')).StartPage),
})

const catalog = createRoute({
  getParentRoute: () => root,
  path: '/catalog',
  component: lazyPart(async () => (await import('../places/catalog/page.tsx')).CatalogPage),
})

const models = createRoute({
  getParentRoute: () => root,
  path: '/models',
  component: lazyPart(async () => (await import('../places/models/page.tsx')).ModelsPage),
})

const tool = createRoute({
  getParentRoute: () => root,
  path: '/tools/$id',
  component: lazyPart(async () => (await import('../places/tool/page.tsx')).ToolPage),
})

const calls = createRoute({
  getParentRoute: () => root,
  path: '/calls',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/calls/page.tsx')).CallsPage),
})

const call = createRoute({
  getParentRoute: () => root,
  path: '/calls/$record',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/calls/call-page.tsx')).CallPage),
})

const approvals = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/approvals/page.tsx')).ApprovalsPage),
})

/** The inbox and one decision are one page: `id` is the open approval. */
const approval = createRoute({ getParentRoute: () => approvals, path: '$id' })

const connections = createRoute({
  getParentRoute: () => root,
  path: '/connections',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/connections/page.tsx')).ConnectionsPage),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/settings/page.tsx')).SettingsPage),
})

export const router = createRouter({
  routeTree: root.addChildren([
    start,
    catalog,
    models,
    tool,
    calls,
    call,
    approvals.addChildren([approval]),
    connections,
    settings,
  ]),
  // The server may be below a path, which is part of the page's base.
  basepath: new URL(document.baseURI).pathname,
  parseSearch: readSearch,
  stringifySearch: writeSearch,
  defaultPreload: 'intent',
  // Wraps each page, so that an error in a page leaves the navigation intact.
  defaultErrorComponent: PageFailed,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface StaticDataRouteOption {
    needsSignIn?: boolean
  }
}

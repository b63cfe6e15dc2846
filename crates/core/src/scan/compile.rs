//! From the tree of a text to its recipe: every place where a table with a column of time is read, and what bounds it.
//!
//! What bounds a read is what its rows must pass to make any difference: the WHERE of its SELECT, the ON of an inner join
//! (of an outer one, only on the side that is filled up with NULL), and, where a subquery of FROM or a CTE passes its column
//! on, what stands outside. Nothing goes in past a LIMIT, a window, or a group of other columns, nor into a CTE that is read
//! twice.
//!
//! A predicate that holds for no NULL, as all that are understood, may be asked before an outer join: a row that does not
//! pass does not pass joined either, and the row of NULLs that would be in its place does not pass.
//!
//! Nothing is to be missed. So the places that were met are counted, and where the tree has more of them, or one of a kind
//! that is not known, the whole text is lost: unbounded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

use sqlparser::ast::{
    CopySource, Cte, Distinct, Expr, FromTable, GroupByExpr, Ident, JoinConstraint, JoinOperator, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableFactor, TableObject,
    TableWithJoins, UpdateTableFromKind, Visit, Visitor, WildcardAdditionalOptions, With, visit_relations,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::expression::{Formula, Side, formula, side};
use super::recipe::{Bound, Read, Recipe};
use super::scope::{Column, Columns, Relation, Target, called, fold, identifiers};
use super::tables::{Found, TimeTables};

/// How deep the parser may go: queries and expressions in one another. Its stack is the caller's.
const DEEPEST: usize = 24;

/// The recipe of a text whose literals were taken out.
pub(crate) fn compile(shape: &str, tables: &TimeTables) -> Recipe {
    let lost = Recipe { reads: Vec::new(), lost: true };
    let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(DEEPEST).try_with_sql(shape);
    let Ok(statements) = parser.and_then(|mut parser| parser.parse_statements()) else { return lost };
    let mut compiler = Compiler { tables, reads: Vec::new(), ctes: Vec::new(), met: 0, lost: false };
    statements.iter().for_each(|statement| compiler.statement(statement));
    let mut there = 0;
    let _ = visit_relations(&statements, |_| {
        there += 1;
        ControlFlow::<()>::Continue(())
    });
    let lost = compiler.lost || compiler.met != there;
    Recipe { reads: compiler.reads, lost }
}

struct Compiler<'a> {
    tables: &'a TimeTables,
    reads: Vec<Read>,
    /// The CTEs that can be named, innermost last.
    ctes: Vec<Known>,
    /// How many names of relations were met.
    met: usize,
    lost: bool,
}

/// A CTE.
struct Known {
    name: String,
    columns: Columns,
}

/// What can be named in a SELECT, or may be bounded there.
type Scope = Vec<Relation>;

impl Compiler<'_> {
    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Query(query) => drop(self.query(query)),
            Statement::Explain { statement, .. } => self.statement(statement),
            Statement::Insert(insert) => {
                self.met += usize::from(matches!(insert.table, TableObject::TableName(_)));
                insert.source.iter().for_each(|source| drop(self.query(source)));
            }
            Statement::CreateTable(create) if create.query.is_some() => {
                self.met += 1;
                create.query.iter().for_each(|query| drop(self.query(query)));
            }
            Statement::Update(update) => {
                let mut scope = Scope::new();
                self.joined(&update.table, &mut scope);
                if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = &update.from {
                    from.iter().for_each(|from| self.joined(from, &mut scope));
                }
                self.filter(update.selection.as_ref(), &scope);
                self.subqueries(&update.assignments);
                self.subqueries(&update.returning);
            }
            Statement::Delete(delete) => {
                let mut scope = Scope::new();
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                from.iter().chain(delete.using.iter().flatten()).for_each(|from| self.joined(from, &mut scope));
                self.filter(delete.selection.as_ref(), &scope);
                self.subqueries(&delete.returning);
            }
            Statement::Copy { to: false, .. }
            | Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Set(_) => {}
            Statement::Copy { source: CopySource::Query(query), .. } => drop(self.query(query)),
            Statement::Copy { source: CopySource::Table { table_name, .. }, .. } => {
                let parts = identifiers(table_name).unwrap_or_default();
                self.table(&joined_name(&parts));
            }
            _ => self.lost = true,
        }
    }

    /// Goes through a query; gives the columns on which what stands outside may bound what is read inside.
    fn query(&mut self, query: &Query) -> Columns {
        let before = self.ctes.len();
        if let Some(with) = &query.with {
            self.with(with, query);
        }
        let columns = self.body(&query.body);
        self.subqueries(&query.order_by);
        self.subqueries(&query.limit_clause);
        self.subqueries(&query.fetch);
        self.lost |= !query.pipe_operators.is_empty();
        self.ctes.truncate(before);
        if query.limit_clause.is_some() || query.fetch.is_some() { Columns::default() } else { columns }
    }

    fn with(&mut self, with: &With, query: &Query) {
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        let _ = visit_relations(query, |name| {
            if let Some([name]) = identifiers(name).as_deref() {
                *uses.entry(fold(name)).or_default() += 1;
            }
            ControlFlow::<()>::Continue(())
        });
        if with.recursive {
            // Each may name itself and those that follow.
            let unknown = |cte: &Cte| Known { name: fold(&cte.alias.name), columns: Columns::default() };
            self.ctes.extend(with.cte_tables.iter().map(unknown));
        }
        for cte in &with.cte_tables {
            let columns = self.query(&cte.query).renamed(&cte.alias);
            let name = fold(&cte.alias.name);
            let once = uses.get(&name).is_none_or(|uses| *uses <= 1);
            let kept = matches!(cte.materialized, Some(sqlparser::ast::CteAsMaterialized::Materialized));
            if !with.recursive {
                let columns = if once && !kept { columns } else { Columns::default() };
                self.ctes.push(Known { name, columns });
            }
        }
    }

    fn body(&mut self, body: &SetExpr) -> Columns {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                let (left, right) = (self.body(left), self.body(right));
                united(left, right)
            }
            SetExpr::Values(values) => {
                self.subqueries(values);
                Columns::default()
            }
            SetExpr::Table(table) => {
                let names = [&table.schema_name, &table.table_name].map(|name| name.as_deref().map(str::to_lowercase));
                let name = names.into_iter().flatten().collect::<Vec<_>>().join(".");
                if !self.ctes.iter().any(|cte| cte.name == name) {
                    self.table(&name);
                }
                Columns::default()
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                self.lost = true;
                Columns::default()
            }
        }
    }

    fn select(&mut self, select: &Select) -> Columns {
        let mut scope = Scope::new();
        select.from.iter().for_each(|from| self.joined(from, &mut scope));
        self.filter(select.selection.as_ref(), &scope);
        self.subqueries(&select.distinct);
        self.subqueries(&select.top);
        self.subqueries(&select.projection);
        self.subqueries(&select.lateral_views);
        self.subqueries(&select.prewhere);
        self.subqueries(&select.connect_by);
        self.subqueries(&select.group_by);
        self.subqueries(&select.cluster_by);
        self.subqueries(&select.distribute_by);
        self.subqueries(&select.sort_by);
        self.subqueries(&select.having);
        self.subqueries(&select.named_window);
        self.subqueries(&select.qualify);
        let closed = matches!(select.distinct, Some(Distinct::On(_)))
            || select.top.is_some()
            || select.exclude.is_some()
            || select.value_table_mode.is_some()
            || select.qualify.is_some()
            || !select.lateral_views.is_empty()
            || !select.connect_by.is_empty()
            || has_window(&select.projection);
        if closed { Columns::default() } else { grouped(select, projected(&select.projection, &scope), &scope) }
    }

    /// WHERE.
    fn filter(&mut self, selection: Option<&Expr>, scope: &[Relation]) {
        let Some(selection) = selection else { return };
        self.subqueries(selection);
        self.bound(&formula(selection, true, scope), scope);
    }

    /// Lets a predicate bound what these relations read.
    fn bound(&mut self, formula: &Formula, relations: &[Relation]) {
        let mut said = BTreeSet::new();
        formula.reads(&mut said);
        let columns = relations.iter().flat_map(|relation| &relation.columns.list);
        let here: BTreeSet<usize> = columns.flat_map(|column| &column.targets).map(|target| target.read).collect();
        for &read in said.intersection(&here) {
            match formula.bound(read) {
                Bound::Any => {}
                bound => match &mut self.reads[read].bound {
                    Bound::All(bounds) => bounds.push(bound),
                    other => *other = Bound::All(vec![other.clone(), bound]),
                },
            }
        }
    }

    /// One item of FROM: what it reads is known then, and can be named in `scope`.
    fn joined(&mut self, from: &TableWithJoins, scope: &mut Scope) {
        let start = scope.len();
        self.factor(&from.relation, scope);
        for join in &from.joins {
            let middle = scope.len();
            self.factor(&join.relation, scope);
            self.subqueries(&join.join_operator);
            let Some((constraint, bounded)) = sides(&join.join_operator, start, middle, scope.len()) else {
                // Its right side cannot be named, or not by all; nothing bounds it.
                scope.truncate(middle);
                continue;
            };
            if let JoinConstraint::On(on) = constraint {
                let formula = formula(on, true, &scope[start..]);
                self.bound(&formula, &scope[bounded]);
            }
        }
    }

    fn factor(&mut self, factor: &TableFactor, scope: &mut Scope) {
        match factor {
            TableFactor::Table { name, alias, args, .. } => {
                self.met += 1;
                self.subqueries(args);
                let parts = identifiers(name).unwrap_or_default();
                let folded: Vec<String> = parts.iter().map(fold).collect();
                let cte = self.ctes.iter().rev().find(|cte| folded.len() == 1 && cte.name == folded[0]);
                let columns = match (args, cte) {
                    (Some(_), _) => Columns::default(),
                    (None, Some(cte)) => cte.columns.clone(),
                    (None, None) => self.table(&joined_name(&parts)),
                };
                scope.push(Relation::new(folded, alias.as_ref(), columns));
            }
            TableFactor::Derived { subquery, alias, .. } => {
                let columns = self.query(subquery);
                scope.push(Relation::new(Vec::new(), alias.as_ref(), columns));
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.joined(table_with_joins, scope),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let mut inside = Scope::new();
                self.joined(table_with_joins, &mut inside);
                let list = inside.into_iter().flat_map(|relation| relation.columns.list).collect();
                scope.push(Relation::new(Vec::new(), alias.as_ref(), Columns { list, whole: false }));
            }
            TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::JsonTable { alias, .. } => {
                self.subqueries(factor);
                let alias: Option<&TableAlias> = alias.as_ref();
                scope.push(Relation::new(Vec::new(), alias, Columns::default()));
            }
            _ => self.lost = true,
        }
    }

    /// A table of that name is read here.
    fn table(&mut self, name: &str) -> Columns {
        let table = match self.tables.find(name) {
            Found::None => return Columns::default(),
            Found::One(table) => Some(table),
            Found::Several => None,
        };
        let read = self.reads.len();
        self.reads.push(Read { table, bound: Bound::Any });
        let Some(table) = table else { return Columns::default() };
        let column = Column {
            name: Some(self.tables.tables()[table].column.clone()),
            any_case: true,
            targets: vec![Target { read, steps: Vec::new() }],
        };
        Columns { list: vec![column], whole: false }
    }

    /// Goes through the queries that stand in something.
    fn subqueries(&mut self, of: &(impl Visit + ?Sized)) {
        let _ = of.visit(&mut Outermost { compiler: self, depth: 0 });
    }
}

/// A name as tables are looked up by it.
fn joined_name(parts: &[Ident]) -> String {
    parts.iter().map(|part| part.value.to_ascii_lowercase()).collect::<Vec<_>>().join(".")
}

/// Finds the queries in something that stand in no other.
struct Outermost<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    depth: usize,
}

impl Visitor for Outermost<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.compiler.query(query);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// The condition of a join, and which of the relations it bounds; None: a join of another kind.
fn sides(join: &JoinOperator, start: usize, middle: usize, end: usize) -> Option<(&JoinConstraint, Range<usize>)> {
    use JoinOperator::*;
    Some(match join {
        Join(on) | Inner(on) | CrossJoin(on) | StraightJoin(on) => (on, start..end),
        Left(on) | LeftOuter(on) => (on, middle..end),
        Right(on) | RightOuter(on) => (on, start..middle),
        FullOuter(on) => (on, end..end),
        _ => return None,
    })
}

/// The columns of a UNION and its like. What each side passes on is known by its place, where places are known.
fn united(left: Columns, right: Columns) -> Columns {
    if !left.whole || !right.whole || left.list.len() != right.list.len() {
        return left;
    }
    let pairs = left.list.into_iter().zip(right.list);
    let list = pairs.map(|(mut column, other)| {
        column.targets.extend(other.targets);
        column
    });
    Columns { list: list.collect(), whole: true }
}

/// The columns that a SELECT gives.
fn projected(projection: &[SelectItem], scope: &[Relation]) -> Columns {
    let mut columns = Columns { list: Vec::new(), whole: true };
    for item in projection {
        let (name, expr) = match item {
            SelectItem::UnnamedExpr(expr) => (name_of(expr), expr),
            SelectItem::ExprWithAlias { expr, alias } => (Some(fold(alias)), expr),
            SelectItem::Wildcard(options) if is_plain(options) => {
                columns.list.extend(scope.iter().flat_map(|relation| relation.columns.list.clone()));
                columns.whole = false;
                continue;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_plain(options) =>
            {
                let relation = identifiers(name).and_then(|name| called(&name, scope));
                columns.list.extend(relation.into_iter().flat_map(|relation| relation.columns.list.clone()));
                columns.whole = false;
                continue;
            }
            _ => return Columns::default(),
        };
        let targets = match side(expr, scope) {
            Side::Column(targets) => targets,
            _ => Vec::new(),
        };
        columns.list.push(Column { name, any_case: false, targets });
    }
    columns
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
        && opt_alias.is_none()
}

fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(fold(name)),
        Expr::CompoundIdentifier(name) => name.last().map(fold),
        _ => None,
    }
}

/// Where rows are grouped, only what they are grouped by is the same for all rows of a group.
fn grouped(select: &Select, mut columns: Columns, scope: &[Relation]) -> Columns {
    let GroupByExpr::Expressions(by, modifiers) = &select.group_by else { return columns };
    if by.is_empty() && modifiers.is_empty() {
        // Without a group, one row of all stands for them, and then no column is passed on as it is.
        return if select.having.is_some() { Columns::default() } else { columns };
    }
    if !modifiers.is_empty() || !columns.whole {
        return Columns::default();
    }
    let keys: Vec<Side> = by.iter().map(|key| side(key, scope)).collect();
    let names: Vec<String> = by.iter().filter_map(name_of).collect();
    for column in &mut columns.list {
        let is_key = keys.iter().any(|key| matches!(key, Side::Column(targets) if *targets == column.targets));
        let named = column.name.as_ref().is_some_and(|name| names.contains(name));
        if !is_key && !named {
            column.targets.clear();
        }
    }
    columns
}

fn has_window(projection: &[SelectItem]) -> bool {
    struct Windows;
    impl Visitor for Windows {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if call.over.is_some() => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    projection.iter().any(|item| item.visit(&mut Windows).is_break())
}

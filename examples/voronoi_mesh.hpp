// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An icosahedral Voronoi mesh of the unit sphere, whole, on every rank: cells (Voronoi cells),
// edges and vertices (circumcentres of triangles), with the weights of TRiSK (Ringler et al. 2010).
#ifndef SHARD_EXAMPLES_VORONOI_MESH_HPP
#define SHARD_EXAMPLES_VORONOI_MESH_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace voronoi {

using Point = std::array<double, 3>;

inline Point operator+(const Point& a, const Point& b) {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}
inline Point operator-(const Point& a, const Point& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
inline Point operator*(double s, const Point& a) { return {s * a[0], s * a[1], s * a[2]}; }
inline double dot(const Point& a, const Point& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
inline Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
inline Point unit(const Point& a) { return (1 / std::sqrt(dot(a, a))) * a; }
/// The angle between two points.
inline double arc(const Point& a, const Point& b) {
  const Point c = cross(a, b);
  return std::atan2(std::sqrt(dot(c, c)), dot(a, b));
}
/// The area of a spherical triangle.
inline double area(const Point& a, const Point& b, const Point& c) {
  return 2 * std::atan2(std::fabs(dot(a, cross(b, c))), 1 + dot(a, b) + dot(b, c) + dot(c, a));
}

/// Global ids are indices of these lists.
struct Mesh {
  struct Weight {  // of the normal velocity at an edge in the tangential velocity at another
    int edge;
    double weight;
  };
  std::vector<Point> cell, vertex, edge;
  std::vector<Point> normal;  ///< of an edge, from its first cell to its second
  std::vector<std::array<int, 2>> cells_on_edge;
  std::vector<std::array<int, 2>> vertices_on_edge;  ///< the second on the left of the normal
  std::vector<std::array<int, 3>> cells_on_vertex, edges_on_vertex;
  std::vector<std::array<double, 3>> kite;  ///< areas of a vertex' parts in its cells
  std::vector<std::vector<int>> edges_on_cell, vertices_on_cell;  ///< counterclockwise
  std::vector<std::vector<Weight>> edges_on_edge;
  std::vector<double> cell_area, vertex_area;
  std::vector<double> edge_length, cell_distance;  ///< between vertices, between cells

  /// The icosahedron bisected `level` times: 10 * 4^level + 2 cells. Then each cell is moved to
  /// its centroid `iterations` times (Lloyd 1982), which makes the mesh more even. Without that
  /// the cells of a level are the first of the next one.
  explicit Mesh(int level, int iterations = 0) {
    icosahedron();
    for (int l = 0; l < level; ++l) bisect();
    find_vertices();
    for (int i = 0; i < iterations; ++i) move_to_centroids();
    find_edges();
    find_areas();
    find_weights();
  }

 private:
  using Pair = std::pair<int, int>;

  void icosahedron() {
    const double golden = (1 + std::sqrt(5.0)) / 2;
    for (const double s : {-1.0, 1.0})
      for (const double r : {-golden, golden}) {
        cell.push_back(unit({0, s, r}));
        cell.push_back(unit({s, r, 0}));
        cell.push_back(unit({r, 0, s}));
      }
    double side = 10;
    for (std::size_t i = 1; i < 12; ++i) side = std::min(side, arc(cell[0], cell[i]));
    const auto near = [&](int i, int j) { return arc(at(i), at(j)) < 1.1 * side; };
    for (int i = 0; i < 12; ++i)
      for (int j = i + 1; j < 12; ++j)
        for (int k = j + 1; k < 12; ++k)
          if (near(i, j) && near(j, k) && near(i, k)) {
            if (dot(at(i), cross(at(j), at(k))) > 0)
              cells_on_vertex.push_back({i, j, k});
            else
              cells_on_vertex.push_back({i, k, j});
          }
  }
  const Point& at(int i) const { return cell[static_cast<std::size_t>(i)]; }

  void bisect() {
    std::map<Pair, int> middles;
    const auto middle = [&](int a, int b) {
      const auto [found, is_new] =
          middles.try_emplace(std::minmax(a, b), static_cast<int>(cell.size()));
      if (is_new) cell.push_back(unit(at(a) + at(b)));
      return found->second;
    };
    std::vector<std::array<int, 3>> finer;
    for (const auto& [i, j, k] : cells_on_vertex) {
      const int a = middle(i, j), b = middle(j, k), c = middle(k, i);
      finer.insert(finer.end(), {{i, a, c}, {a, j, b}, {c, b, k}, {a, b, c}});
    }
    cells_on_vertex = std::move(finer);
  }

  void find_vertices() {
    std::vector<std::vector<int>> around(cell.size());
    for (std::size_t v = 0; v < cells_on_vertex.size(); ++v)
      for (const int c : cells_on_vertex[v])
        around[static_cast<std::size_t>(c)].push_back(static_cast<int>(v));
    find_circumcentres();
    for (std::size_t c = 0; c < cell.size(); ++c) {
      const Point& first = vertex[static_cast<std::size_t>(around[c][0])];
      const Point x = unit(first - dot(cell[c], first) * cell[c]), y = cross(cell[c], x);
      std::vector<std::pair<double, int>> by_angle;
      for (const int v : around[c]) {
        const Point& p = vertex[static_cast<std::size_t>(v)];
        by_angle.emplace_back(std::atan2(dot(p, y), dot(p, x)), v);
      }
      std::sort(by_angle.begin(), by_angle.end());
      vertices_on_cell.emplace_back();
      for (const auto& [angle, v] : by_angle) vertices_on_cell.back().push_back(v);
    }
  }

  void find_circumcentres() {
    vertex.clear();
    for (const auto& [i, j, k] : cells_on_vertex)
      vertex.push_back(unit(cross(at(j) - at(i), at(k) - at(i))));
  }

  void move_to_centroids() {
    for (std::size_t c = 0; c < cell.size(); ++c) {
      const auto& corners = vertices_on_cell[c];
      Point sum{};
      for (std::size_t j = 0; j < corners.size(); ++j) {
        const Point& a = vertex[static_cast<std::size_t>(corners[j])];
        const Point& b = vertex[static_cast<std::size_t>(corners[(j + 1) % corners.size()])];
        sum            = sum + area(cell[c], a, b) * unit(cell[c] + a + b);
      }
      cell[c] = unit(sum);
    }
    find_circumcentres();
  }

  void find_edges() {
    std::map<Pair, int> edges;
    for (const auto& cells : cells_on_vertex)
      for (std::size_t j = 0; j < 3; ++j) {
        const auto pair            = std::minmax(cells[j], cells[(j + 1) % 3]);
        const auto [found, is_new] = edges.try_emplace(pair, static_cast<int>(edges.size()));
        if (is_new) cells_on_edge.push_back({pair.first, pair.second});
        if (j == 0) edges_on_vertex.emplace_back();
        edges_on_vertex.back()[j] = found->second;
      }
    for (const auto& [a, b] : cells_on_edge) {
      const Point middle = unit(at(a) + at(b));
      edge.push_back(middle);
      normal.push_back(unit(at(b) - dot(at(b), middle) * middle));
      cell_distance.push_back(arc(at(a), at(b)));
    }
    vertices_on_edge.resize(edge.size());
    for (std::size_t v = 0; v < vertex.size(); ++v)
      for (const int e : edges_on_vertex[v]) {
        const auto i                        = static_cast<std::size_t>(e);
        const Point left                    = cross(edge[i], normal[i]);
        const bool second                   = dot(vertex[v] - edge[i], left) > 0;
        vertices_on_edge[i][second ? 1 : 0] = static_cast<int>(v);
      }
    for (const auto& [a, b] : vertices_on_edge)
      edge_length.push_back(
          arc(vertex[static_cast<std::size_t>(a)], vertex[static_cast<std::size_t>(b)]));
    edges_on_cell.resize(cell.size());
    for (std::size_t c = 0; c < cell.size(); ++c)  // edge j is between vertices j and j + 1
      for (std::size_t j = 0; j < vertices_on_cell[c].size(); ++j) {
        const int a = vertices_on_cell[c][j],
                  b = vertices_on_cell[c][(j + 1) % vertices_on_cell[c].size()];
        for (const int e : edges_on_vertex[static_cast<std::size_t>(a)]) {
          const auto& ends = vertices_on_edge[static_cast<std::size_t>(e)];
          if (ends[0] == b || ends[1] == b) edges_on_cell[c].push_back(e);
        }
      }
  }

  void find_areas() {
    kite.resize(vertex.size());
    vertex_area.assign(vertex.size(), 0);
    cell_area.assign(cell.size(), 0);
    for (std::size_t v = 0; v < vertex.size(); ++v)
      for (std::size_t j = 0; j < 3; ++j) {
        const int c = cells_on_vertex[v][j];
        for (const int e : edges_on_vertex[v]) {
          const auto& cells = cells_on_edge[static_cast<std::size_t>(e)];
          if (cells[0] == c || cells[1] == c)
            kite[v][j] += area(at(c), edge[static_cast<std::size_t>(e)], vertex[v]);
        }
        vertex_area[v] += kite[v][j];
        cell_area[static_cast<std::size_t>(c)] += kite[v][j];
      }
  }

  /// Ringler et al. 2010, equation 33: the normal velocities around both cells give the tangential
  /// one.
  void find_weights() {
    edges_on_edge.resize(edge.size());
    for (std::size_t e = 0; e < edge.size(); ++e)
      for (const std::size_t side : {0, 1}) {
        const auto c        = static_cast<std::size_t>(cells_on_edge[e][side]);
        const auto& edges   = edges_on_cell[c];
        const std::size_t n = edges.size();
        const auto start    = static_cast<std::size_t>(
            std::find(edges.begin(), edges.end(), static_cast<int>(e)) - edges.begin());
        double share = 0;  // of the cell's area between the two edges
        for (std::size_t j = 1; j < n; ++j) {
          const auto v = static_cast<std::size_t>(vertices_on_cell[c][(start + j) % n]);
          for (std::size_t q = 0; q < 3; ++q)
            if (cells_on_vertex[v][q] == static_cast<int>(c)) share += kite[v][q] / cell_area[c];
          const int other    = edges[(start + j) % n];
          const auto o       = static_cast<std::size_t>(other);
          const double out   = cells_on_edge[o][0] == static_cast<int>(c) ? 1 : -1;
          const double where = side == 1 ? -1 : 1;
          edges_on_edge[e].push_back(
              {other, where * (0.5 - share) * out * edge_length[o] / cell_distance[e]});
        }
      }
  }
};

}  // namespace voronoi

#endif
